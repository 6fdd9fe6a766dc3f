"""Schedules: when they are due, what became of their runs; making, editing, pausing and running them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest

from queuemgr.base.errors import BadInput, SluiceError
from queuemgr.base.redaction import masked
from queuemgr.base.safe_text import as_json
from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.time_text import duration_text, moment_text
from queuemgr.flows import payload_validation
from queuemgr.flows.flow import all_flows
from queuemgr.models import Schedule
from queuemgr.operations import schedules
from queuemgr.operations.controls import Actor
from queuemgr.reporting import schedules as report
from queuemgr.schedules import timing
from queuemgr.web.admin import row_actions, schedule_timeline
from queuemgr.web.admin.pausing import PauseForm, PausingAdmin
from queuemgr.web.admin.read_only_admin import ExtraPage, ReasonForm, actor_of
from queuemgr.web.admin_classes import Select
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
    sortable_by = ("name", "flow")
    deferred = ("payload", "statements")
    may_add = True
    own_page = "schedule"
    operations = schedules
    list_tools_template = "admin/queuemgr/schedule_tools.html"

    def read_page(self, rows: Sequence[Any]) -> None:
        for row, shown in zip(rows, report.listed(rows), strict=True):
            last = shown["last"] or {}
            row.state = shown["paused"] or shown["state"]
            row.due = _due(shown)
            row.last_due = moment_text(last["due_at"]) if last else ""
            row.became = report.became(last) if last else ""

    def pages(self) -> Iterable[ExtraPage]:
        yield ExtraPage("timeline/", schedule_timeline.view, "schedule_timeline")
        yield row_actions.form_page(self, "edit", "change", row_actions.edit_of(EditForm), _edit)
        yield row_actions.form_page(self, "payload", "change", _payload_form, _edit_payload)
        yield from row_actions.pausing_pages(
            self, "its runs are skipped until it is resumed.", "it runs again from its next due time on."
        )
        yield row_actions.button_page(self, "run", "run", _run)
        yield row_actions.button_page(self, "delete", "delete", _delete)

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
        until = schedule_timeline.asked(request.GET.get("until", ""), database_now())
        shown = report.shown(row, until)
        for run in shown["runs"]:
            run["became"] = report.became(run)
            if run["execution"] and run["late_seconds"] > report.late_bound().total_seconds():
                run["became"] += f", enqueued {duration_text(run['late_seconds'])} late"
            run["took"] = "" if run["seconds"] is None else duration_text(run["seconds"])
        return {
            "title": f"Schedule {row.name}", "schedule": row, "shown": shown, "next": _due(shown),
            "next_runs": [(at, report.local_time(row, at)) for at in shown["next_runs"]],
            "until": until, "earlier": _earlier(shown),
            "is_paused": row.is_paused(database_now()), "may_delete": not row.is_stated or row.retired_at,
            "edit_form": EditForm(instance=row), "pause_form": PauseForm(),
            "payload_form": PayloadForm(initial={"payload": as_json(masked(row.payload))}),
        }  # fmt: skip


def _edit(request: HttpRequest, row: Schedule, form: EditForm) -> str:
    values = form.changed_values(*schedules.FIELDS)
    schedules.edit(row.name, actor_of(request), **values)
    return "Saved." if values else "Nothing was changed."


def _payload_form(request: HttpRequest, row: Schedule) -> PayloadForm:
    if not request.user.has_perms(("queuemgr.edit_payload", "queuemgr.view_payload")):
        raise PermissionDenied
    return PayloadForm(request.POST)


def _edit_payload(request: HttpRequest, row: Schedule, form: PayloadForm) -> str:
    schedules.edit(row.name, actor_of(request), payload=form.cleaned_data["payload"])
    return "Saved."


def _run(row: Schedule, by: Actor) -> str:
    return f"Enqueued as {schedules.run_now(row.name, by)}."


def _delete(row: Schedule, by: Actor) -> str:
    schedules.delete(row.name, by)
    return f"Deleted: {row.name}."


def _due(shown: dict[str, Any]) -> str:
    if shown["next_due_at"] is None:
        return ""
    late = f", {duration_text(shown['late_seconds'])} late" if shown["late_seconds"] else ""
    return f"{moment_text(shown['next_due_at'])}{late}"


def _earlier(shown: dict[str, Any]) -> str:
    """The query string of the runs before those that are shown, if there may be any."""
    if len(shown["runs"]) < report.LAST_RUNS:
        return ""
    return schedule_timeline.until(shown["runs"][-1]["due_at"])


def _canonical(text: str) -> str:
    try:
        return str(timing.parse(text))
    except BadInput as error:
        raise ValidationError(str(error)) from None
