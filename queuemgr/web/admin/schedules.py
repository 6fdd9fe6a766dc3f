"""Schedules: when they are due, what became of their runs; making, editing, pausing and running them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST

from queuemgr.base.errors import BadInput, SluiceError
from queuemgr.base.redaction import masked
from queuemgr.base.safe_text import as_json
from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.time_text import duration_text
from queuemgr.flows import payload_validation
from queuemgr.flows.flow import all_flows
from queuemgr.models import Schedule
from queuemgr.operations import schedules
from queuemgr.operations.controls import Actor
from queuemgr.reporting import schedules as report
from queuemgr.schedules import timing
from queuemgr.web.admin import schedule_timeline
from queuemgr.web.admin.pausing import PauseForm, PausingAdmin
from queuemgr.web.admin.read_only_admin import ExtraPage, ReasonForm, actor_of, render_page
from queuemgr.web.admin_classes import Select
from queuemgr.web.links import address
from queuemgr.web.page_registry import page


class EditForm(ReasonForm):
    class Meta:
        model = Schedule
        fields = schedules.FIELDS

    def clean_timing(self) -> str:
        return _canonical(self.cleaned_data["timing"])


class PayloadField(forms.CharField):
    """A JSON object, or `ValidationError`: Django's field fails on one that is nested too deeply."""

    widget = forms.Textarea(attrs={"rows": 6, "spellcheck": "false", "class": "sg-code"})

    def clean(self, value: Any) -> Any:
        try:
            return payload_validation.parse(super().clean(value) or "{}")
        except BadInput as error:
            raise ValidationError(str(error)) from None


class PayloadForm(forms.Form):
    payload = PayloadField(help_text="A JSON object. Recorded apart, for those who may read payloads.")
    reason = forms.CharField(max_length=200, required=False, help_text="Recorded in the audit log.")


class NewForm(ReasonForm):
    flow = forms.ChoiceField(widget=Select, help_text="The flow, or the task, that it enqueues.")
    payload = PayloadField(required=False, initial="{}", help_text="A JSON object.")

    class Meta:
        model = Schedule
        fields = ("name", "flow", *schedules.FIELDS, "payload")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        flow: Any = self.fields["flow"]
        takes_payloads = (each.name for each in all_flows() if not each.parse_item)
        flow.choices = [(name, name) for name in takes_payloads]

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        if not name.isprintable():
            raise ValidationError("Use printable characters only.")
        return name

    def clean_timing(self) -> str:
        return _canonical(self.cleaned_data["timing"])


@page(Schedule)
class ScheduleAdmin(PausingAdmin):
    form = NewForm
    list_display = ("name", "flow", "timing", "state", "due", "last_due", "became")
    titles = {"state": "state", "due": "next run", "last_due": "last run", "became": "became"}
    search_fields = ("name", "flow")
    search_help_text = "A part of its name or of its flow's."
    sortable_by = ()
    deferred = ("payload", "statements")
    may_add = True
    own_page = "schedule"
    list_tools_template = "admin/queuemgr/schedule_tools.html"

    def read_page(self, rows: Sequence[Any]) -> None:
        for row, shown in zip(rows, report.listed(rows), strict=True):
            last = shown["last"] or {}
            row.state = shown["paused"] or shown["state"]
            row.due = _due(shown)
            row.last_due = f"{last['due_at']:%Y-%m-%d %H:%M:%S} UTC" if last else ""
            row.became = _became(last) if last else ""

    def pages(self) -> Iterable[ExtraPage]:
        yield ExtraPage("timeline/", schedule_timeline.view, "schedule_timeline")
        yield ExtraPage("<int:pk>/edit/", self.edit_view, "schedule_edit")
        yield ExtraPage("<int:pk>/payload/", self.payload_view, "schedule_payload")
        yield ExtraPage("<int:pk>/pause/", self.pause_view, "schedule_pause")
        for name, right, act in (
            ("resume", "pause", _resume),
            ("run", "run", _run),
            ("delete", "delete", _delete),
        ):
            view = partial(self.act_view, right=right, act=act)
            yield ExtraPage(f"<int:pk>/{name}-it/", view, f"schedule_{name}")

    def pause_one(self, name: str, by: Actor, until: Any) -> None:
        schedules.pause(name, by, until)

    def resume_one(self, name: str, by: Actor) -> None:
        schedules.resume(name, by)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """It enqueues, and so does who makes it."""
        return super().has_add_permission(request) and request.user.has_perm("queuemgr.add_execution")

    def save_model(self, request: HttpRequest, obj: Schedule, form: NewForm, change: bool) -> None:
        values = {name: form.cleaned_data[name] for name in schedules.FIELDS if name != "timing"}
        try:
            made = schedules.create(
                obj.name, obj.flow, obj.timing, actor_of(request), payload=obj.payload, **values
            )
        except SluiceError as error:
            raise ValidationError(str(error)) from None
        obj.pk = made.pk

    def own_context(self, request: HttpRequest, row: Schedule) -> dict[str, Any]:
        return self._context(row, schedule_timeline.asked(request.GET.get("until", ""), database_now()))

    def _context(
        self, row: Schedule, until: datetime | None = None, /, **filled: forms.BaseForm
    ) -> dict[str, Any]:
        shown = report.shown(row, until)
        for run in shown["runs"]:
            run["became"] = _became(run)
            if run["execution"] and run["late_seconds"] > report.late_bound().total_seconds():
                run["became"] += f", enqueued {duration_text(run['late_seconds'])} late"
            run["took"] = "" if run["seconds"] is None else duration_text(run["seconds"])
        forms_of = {
            "edit_form": EditForm(instance=row),
            "payload_form": PayloadForm(initial={"payload": as_json(masked(row.payload))}),
            "pause_form": PauseForm(),
        }
        return {
            "title": f"Schedule {row.name}", "schedule": row, "shown": shown, "next": _due(shown),
            "next_runs": [(at, report.local_time(row, at)) for at in shown["next_runs"]],
            "until": until, "earlier": _earlier(shown),
            "is_paused": row.is_paused(database_now()), "may_delete": not row.is_stated or row.retired_at,
            **forms_of, **filled,
        }  # fmt: skip

    @method_decorator(require_POST)
    def edit_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        row = self._row(request, pk, "change")
        form = EditForm(request.POST, instance=Schedule.objects.get(pk=row.pk))
        if not form.is_valid():
            return self._again(request, row, edit_form=form)
        values = form.changed_values(*schedules.FIELDS)
        return self._done(request, row, partial(_edit, values=values))

    @method_decorator(require_POST)
    def payload_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        row = self._row(request, pk, "change")
        if not (
            request.user.has_perm("queuemgr.edit_payload") and request.user.has_perm("queuemgr.view_payload")
        ):
            raise PermissionDenied
        form = PayloadForm(request.POST)
        if not form.is_valid():
            return self._again(request, row, payload_form=form)
        return self._done(request, row, partial(_edit, values={"payload": form.cleaned_data["payload"]}))

    @method_decorator(require_POST)
    def pause_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        row, form = self._row(request, pk, "pause"), PauseForm(request.POST)
        if not form.is_valid():
            return self._again(request, row, pause_form=form)
        return self._done(request, row, partial(_pause, until=form.cleaned_data["until"]))

    @method_decorator(require_POST)
    def act_view(self, request: HttpRequest, pk: int, right: str, act: Any) -> HttpResponse:
        return self._done(request, self._row(request, pk, right), act)

    def _row(self, request: HttpRequest, pk: int, right: str) -> Schedule:
        row = Schedule.objects.filter(pk=pk).first()
        if row is None or not request.user.has_perm(f"queuemgr.{right}_schedule"):
            raise PermissionDenied
        found: Schedule = row
        return found

    def _again(self, request: HttpRequest, row: Schedule, **filled: forms.BaseForm) -> HttpResponse:
        return render_page(request, self.own_page, opts=self.opts, **self._context(row, **filled))

    def _done(self, request: HttpRequest, row: Schedule, act: Any) -> HttpResponse:
        try:
            messages.success(request, act(row, actor_of(request)))
        except SluiceError as error:
            messages.error(request, str(error))
        if not Schedule.objects.filter(pk=row.pk).exists():
            return redirect(address("queuemgr_schedule_changelist"))
        return redirect(address("queuemgr_schedule_change", row.pk))


def _edit(row: Schedule, by: Actor, values: dict[str, Any]) -> str:
    schedules.edit(row.name, by, **values)
    return "Saved." if values else "Nothing was changed."


def _pause(row: Schedule, by: Actor, until: Any) -> str:
    schedules.pause(row.name, by, until)
    return "Paused: its runs are skipped until it is resumed."


def _resume(row: Schedule, by: Actor) -> str:
    schedules.resume(row.name, by)
    return "Resumed: it runs again from its next due time on."


def _run(row: Schedule, by: Actor) -> str:
    return f"Enqueued as {schedules.run_now(row.name, by)}."


def _delete(row: Schedule, by: Actor) -> str:
    schedules.delete(row.name, by)
    return f"Deleted: {row.name}."


def _due(shown: dict[str, Any]) -> str:
    if shown["next_due_at"] is None:
        return ""
    late = f", {duration_text(shown['late_seconds'])} late" if shown["late_seconds"] else ""
    return f"{shown['next_due_at']:%Y-%m-%d %H:%M:%S} UTC{late}"


def _earlier(shown: dict[str, Any]) -> str:
    """The query string of the runs before those that are shown, if there may be any."""
    if len(shown["runs"]) < report.LAST_RUNS:
        return ""
    return schedule_timeline.until(shown["runs"][-1]["due_at"])


def _became(run: dict[str, Any]) -> str:
    return report.became(run)


def _canonical(text: str) -> str:
    try:
        return str(timing.parse(text))
    except BadInput as error:
        raise ValidationError(str(error)) from None
