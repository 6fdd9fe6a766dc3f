"""Webhooks: who is told of the ends of work, and how deliveries go; adding, editing, pausing, testing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST

from queuemgr.base.errors import SluiceError
from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle.webhook_events import FLOW
from queuemgr.models import Webhook, WebhookEvent
from queuemgr.operations import webhooks
from queuemgr.operations.controls import Actor
from queuemgr.reporting import webhooks as report
from queuemgr.web.admin.pausing import PauseForm, PausingAdmin
from queuemgr.web.admin.read_only_admin import ExtraPage, ReasonForm, actor_of, render_page
from queuemgr.web.links import address
from queuemgr.web.page_registry import page

FIELDS = tuple(name for name in webhooks.FIELDS if name != "url")
"""What a form shows as it is: an address is shown without its query, and typed anew."""


class Fields(ReasonForm):
    """The rules are those of `operations.webhooks`, which the fields ask one by one."""

    events = forms.MultipleChoiceField(
        choices=WebhookEvent.choices, widget=forms.CheckboxSelectMultiple, initial=[WebhookEvent.FAILED]
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["events"] = self.instance.events.split()

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        for name in FIELDS:
            if name in cleaned:
                try:
                    cleaned[name] = webhooks.checked({name: cleaned[name]})[name]
                except SluiceError as error:
                    self.add_error(name, str(error))
        return cleaned


class NewForm(Fields):
    class Meta:
        model = Webhook
        fields = ("name", *webhooks.FIELDS)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        try:
            if {"name", "url"} <= cleaned.keys():
                webhooks.check_new(str(cleaned["name"]), str(cleaned["url"]), bool(cleaned["allow_private"]))
        except SluiceError as error:
            raise ValidationError(str(error)) from None
        return cleaned


class EditForm(Fields):
    url = forms.CharField(required=False, help_text="A new address; empty: as it is.")

    class Meta:
        model = Webhook
        fields = FIELDS


@page(Webhook)
class WebhookAdmin(PausingAdmin):
    form = NewForm
    list_display = ("name", "shown_url", "flows", "events", "state", "waiting", "failed")
    titles = {"shown_url": "url", "state": "state", "waiting": "waiting", "failed": "failed"}
    search_fields = ("name",)
    search_help_text = "A part of its name."
    sortable_by = ()
    may_add = True
    own_page = "webhook"

    def read_page(self, rows: Sequence[Any]) -> None:
        for row, shown in zip(rows, report.listed(rows), strict=True):
            row.shown_url, row.state = shown["url"], shown["paused"] or shown["state"]
            row.waiting, row.failed = shown["waiting"], shown["failed"]

    def pages(self) -> Iterable[ExtraPage]:
        yield ExtraPage("<int:pk>/edit/", self.edit_view, "webhook_edit")
        yield ExtraPage("<int:pk>/pause/", self.pause_view, "webhook_pause")
        for name, right, act in (
            ("resume", "pause", _resume),
            ("test", "test", _test),
            ("remove", "delete", _remove),
        ):
            view = partial(self.act_view, right=right, act=act)
            yield ExtraPage(f"<int:pk>/{name}-it/", view, f"webhook_{name}")

    def pause_one(self, name: str, by: Actor, until: Any) -> None:
        webhooks.pause(name, by, until)

    def resume_one(self, name: str, by: Actor) -> None:
        webhooks.resume(name, by)

    def save_model(self, request: HttpRequest, obj: Webhook, form: NewForm, change: bool) -> None:
        values = {name: form.cleaned_data[name] for name in FIELDS}
        _check_results(request, values)
        obj.pk = webhooks.add(obj.name, obj.url, actor_of(request), **values).pk

    def own_context(self, request: HttpRequest, row: Webhook) -> dict[str, Any]:
        return self._context(row)

    def _context(self, row: Webhook, **filled: forms.BaseForm) -> dict[str, Any]:
        forms_of = {"edit_form": EditForm(instance=row), "pause_form": PauseForm()}
        return {
            "title": f"Webhook {row.name}", "webhook": row, "shown": report.shown(row), "flow": FLOW,
            "is_paused": row.is_paused(database_now()), **forms_of, **filled,
        }  # fmt: skip

    @method_decorator(require_POST)
    def edit_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        row = self._row(request, pk, "change")
        form = EditForm(request.POST, instance=Webhook.objects.get(pk=row.pk))
        if not form.is_valid():
            return self._again(request, row, edit_form=form)
        values = {name: form.cleaned_data[name] for name in FIELDS}
        values |= {"url": form.cleaned_data["url"]} if form.cleaned_data["url"] else {}
        _check_results(request, values, row)
        return self._done(request, row, partial(_edit, values=values))

    @method_decorator(require_POST)
    def pause_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        row, form = self._row(request, pk, "pause"), PauseForm(request.POST)
        if not form.is_valid():
            return self._again(request, row, pause_form=form)
        return self._done(request, row, partial(_pause, until=form.cleaned_data["until"]))

    @method_decorator(require_POST)
    def act_view(self, request: HttpRequest, pk: int, right: str, act: Any) -> HttpResponse:
        return self._done(request, self._row(request, pk, right), act)

    def _row(self, request: HttpRequest, pk: int, right: str) -> Webhook:
        row = Webhook.objects.filter(pk=pk).first()
        if row is None or not request.user.has_perm(f"queuemgr.{right}_webhook"):
            raise PermissionDenied
        found: Webhook = row
        return found

    def _again(self, request: HttpRequest, row: Webhook, **filled: forms.BaseForm) -> HttpResponse:
        return render_page(request, self.own_page, opts=self.opts, **self._context(row, **filled))

    def _done(self, request: HttpRequest, row: Webhook, act: Any) -> HttpResponse:
        try:
            messages.success(request, act(row, actor_of(request)))
        except SluiceError as error:
            messages.error(request, str(error))
        if not Webhook.objects.filter(pk=row.pk).exists():
            return redirect(address("queuemgr_webhook_changelist"))
        return redirect(address("queuemgr_webhook_change", row.pk))


def _check_results(request: HttpRequest, values: dict[str, Any], row: Webhook | None = None) -> None:
    if webhooks.sends_results(values, row) and not request.user.has_perm("queuemgr.view_payload"):
        raise PermissionDenied


def _edit(row: Webhook, by: Actor, values: dict[str, Any]) -> str:
    webhooks.edit(row.name, by, **values)
    return "Saved."


def _pause(row: Webhook, by: Actor, until: Any) -> str:
    webhooks.pause(row.name, by, until)
    return "Paused: nothing is delivered until it is resumed."


def _resume(row: Webhook, by: Actor) -> str:
    webhooks.resume(row.name, by)
    return "Resumed: it is notified of what ends from now on."


def _test(row: Webhook, by: Actor) -> str:
    return f"A test is enqueued as {FLOW}/{webhooks.send_test(row.name, by)}."


def _remove(row: Webhook, by: Actor) -> str:
    webhooks.remove(row.name, by)
    return f"Removed: {row.name}."
