"""Alerts: alarms that are sent out and how their messages went, silences in force, and a test."""

from __future__ import annotations

from collections.abc import Iterator

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from queuemgr.base.errors import SluiceError
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models.alerts import MAX_CODE
from queuemgr.operations import alerts
from queuemgr.reporting import alerts as report
from queuemgr.web.admin.read_only_admin import ExtraPage, actor_of, render_page
from queuemgr.web.admin.utc_field import UtcDateTimeField
from queuemgr.web.links import address

EXPLAINED = (
    "Nothing is sent of alarms whose code matches until then; an alarm that still stands is sent when the "
    "silence ends, and the end of one that was sent before is always sent."
)


class SilenceForm(forms.Form):
    """What else is asked of a silence `operations.alerts` says."""

    pattern = forms.CharField(
        max_length=MAX_CODE,
        widget=forms.TextInput(attrs={"class": "vTextField"}),
        help_text="An alarm's code, * for any characters.",
    )
    until = UtcDateTimeField(
        label="Until (UTC)", widget=forms.DateTimeInput(attrs={"type": "datetime-local"})
    )
    reason = forms.CharField(
        max_length=200,
        widget=forms.TextInput(attrs={"class": "vTextField"}),
        help_text="Shown to who wonders why nothing came, and recorded in the audit log.",
    )


def pages() -> Iterator[ExtraPage]:
    yield ExtraPage("alerts/", alerts_page, "alerts")
    yield ExtraPage("alerts/silence/", silence_page, "alert_silence")
    yield ExtraPage("alerts/silence/<int:pk>/end/", end_silence, "alertsilence_end")
    yield ExtraPage("alerts/test/", send_test, "alert_test")


@require_safe
def alerts_page(request: HttpRequest) -> HttpResponse:
    _check(request, "view_alert")
    shown = {"alerts": report.standing(), "silences": report.silences(database_now())}
    return render_page(request, "alerts", title="Alerts", **shown)


@require_http_methods(["GET", "HEAD", "POST"])
def silence_page(request: HttpRequest) -> HttpResponse:
    """The form of a new silence, with the pattern that a link has."""
    _check(request, "silence_alert")
    pattern = request.GET.get("pattern", "")[:MAX_CODE]
    form = SilenceForm(request.POST if request.method == "POST" else None, initial={"pattern": pattern})
    if form.is_valid():
        values = form.cleaned_data
        try:
            row = alerts.silence(values["pattern"], values["until"], actor_of(request))
        except SluiceError as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, f"Silenced: {row}.")
            return redirect(address("alerts"))
    context = {"act": {"label": "Silence"}, "name": pattern or "alerts", "now": (), "explanation": EXPLAINED}
    return render_page(
        request, "named_action", title="Silence alerts", form=form,
        back=address("alerts"), **context,
    )  # fmt: skip


@require_POST
def end_silence(request: HttpRequest, pk: int) -> HttpResponse:
    _check(request, "silence_alert")
    try:
        messages.success(request, f"Ended: the silence of {alerts.unsilence(pk, actor_of(request)).pattern}.")
    except SluiceError as error:
        messages.error(request, str(error))
    return redirect(address("alerts"))


@require_POST
def send_test(request: HttpRequest) -> HttpResponse:
    _check(request, "test_alert")
    try:
        alerts.request_test(actor_of(request))
    except SluiceError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, "A test is sent by the worker of the queue housekeeping, within a minute.")
    return redirect(address("alerts"))


def _check(request: HttpRequest, permission: str) -> None:
    if not request.user.has_perm(f"queuemgr.{permission}"):
        raise PermissionDenied
