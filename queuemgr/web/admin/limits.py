"""Limits: fields, current status, what waits on them, pausing, and closing their breakers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import linebreaksbr
from django.template.loader import render_to_string
from django.utils.html import format_html

from queuemgr.base.errors import BadInput
from queuemgr.base.time_text import moment_text
from queuemgr.models import LIMIT_FIELDS, SHORT_OR_LONG, UNBOUNDED, Lease, Limit, LimitState
from queuemgr.models.settable import grouped
from queuemgr.operations import controls
from queuemgr.operations.limit_names import UnknownLimit, is_resource, limit_to_edit, refused
from queuemgr.operations.rights import fields_not_for
from queuemgr.reporting.dashboard.allowance_table import AllowanceRow
from queuemgr.scheduling.claims import FLEET
from queuemgr.scheduling.limit_rows import pattern_of
from queuemgr.web.admin import limit_actions
from queuemgr.web.admin.burn_down_chart import chart_of, columns_of
from queuemgr.web.admin.limit_status import LimitStatus, limit_statuses, some_of
from queuemgr.web.admin.named_actions import NamedAdmin
from queuemgr.web.admin.pausing import PausingAdmin
from queuemgr.web.admin.read_only_admin import ReasonForm, actor_of
from queuemgr.web.admin_classes import Checkbox, Textarea
from queuemgr.web.links import address, link
from queuemgr.web.page_registry import page

SHOWN = 20
"""Maximum number of rows in the tables of a limit's page."""

NOW = ("acts", "service_now", "used_now", "waits_now")


PREVIEW = "_preview"
"""The button that says what would become of changed allowances, and saves nothing."""


class LinesInput(Textarea):
    """Entries one a line; rows have `; ` between them."""

    def format_value(self, value: Any) -> Any:
        return value.replace("; ", "\n") if isinstance(value, str) else value

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        """As the row has it, so that what nobody changed is not an edit."""
        given = data.get(name)
        return given and "; ".join(filter(None, map(str.strip, given.splitlines())))


class LimitForm(ReasonForm):
    class Meta:
        model = Limit
        fields = ("name", *LIMIT_FIELDS)
        widgets: ClassVar = {
            name: LinesInput(attrs={"rows": 4, "cols": 60})
            for name, field in LIMIT_FIELDS.items()
            if field.is_long
        }

    new = forms.BooleanField(
        required=False, widget=Checkbox, label="New name", help_text="Also one that no flow uses yet."
    )

    def is_valid(self) -> bool:
        """False for a preview, which is validated and then shown instead of saved."""
        valid = super().is_valid()
        self.instance.previewed = valid and PREVIEW in self.data
        return valid and PREVIEW not in self.data

    def clean(self) -> dict[str, Any] | None:
        """A mistyped name would be a limit that nothing passes."""
        cleaned = super().clean()
        name = self.cleaned_data.get("name")
        if name:
            try:
                limit_to_edit(name, new=self.cleaned_data["new"])
            except UnknownLimit as error:
                self.add_error("name", f"{error}. If it is new, say so.")
            except BadInput as error:
                self.add_error("name", str(error))
        changed = {field: self.cleaned_data.get(field) for field in self.changed_data}
        for field, why in refused(name or self.instance.name, changed).items():
            self.add_error(field, why)
        return cleaned

    def _post_clean(self) -> None:
        """Once all of them can be read."""
        super()._post_clean()  # type: ignore[misc]  # django-stubs leave it out
        edited = SHORT_OR_LONG & {*self.changed_data} and not SHORT_OR_LONG & self.errors.keys()
        if edited and (twice := self.instance.said_twice()):
            self.add_error("allowances", str(twice))


@page(Limit)
class LimitAdmin(NamedAdmin, PausingAdmin):
    is_live = True
    form = LimitForm
    named_actions = limit_actions.LIMIT_ACTIONS
    list_display = (
        "name", "in_use", "reserved", "rate_now", "allowed", "breaker", "paused", "waits",
    )  # fmt: skip
    titles = {
        "in_use": "in use / cap", "reserved": "reserved", "rate_now": "rate",
        "allowed": "allowances", "breaker": "breaker", "waits": "what waits on it",
    }  # fmt: skip
    fieldsets: ClassVar[Any] = (
        (None, {"fields": ("name", "new")}),
        *((heading, {"fields": names}) for heading, names in grouped(LIMIT_FIELDS).items()),
        (None, {"fields": ("reason",)}),
    )
    change_form_after_template = "admin/queuemgr/preview_allowances.html"
    actions = ("pause", "resume", "reset_breaker", "remove")
    sortable_by = ("name",)
    search_fields = ("name",)
    may_add = True

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        name, *fields = self.fieldsets
        if obj is None:
            return [name, *fields]
        paused = ("paused",) if obj.paused else ()
        now = ("Status", {"fields": (*NOW, *paused)})
        return [now, *(fields if self.has_change_permission(request, obj) else fields[:-1])]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        theirs = fields_not_for(request.user, LIMIT_FIELDS)
        return (*theirs, "name", *NOW, "paused") if obj else theirs

    def save_model(self, request: HttpRequest, obj: Limit, form: LimitForm, change: bool) -> None:
        values = form.changed_values(*LIMIT_FIELDS)
        if values:
            new = form.cleaned_data["new"]
            obj.pk = controls.edit_limit(obj.name, actor_of(request), new=new, **values).pk

    def read_page(self, rows: Sequence[Any]) -> None:
        super().read_page(rows)
        for row, status in zip(rows, limit_statuses(rows), strict=True):
            row.limit_status = status
            row.in_use, row.rate_now = status.in_use(), linebreaksbr(status.rate())
            row.reserved = f"{row.reserved_high:,} for high" if row.reserved_high else ""
            row.allowed, row.breaker = _allowed(status), linebreaksbr(status.breakers())
            row.waits = _lines(status.waits_on_it())

    def sentences(self, name: str) -> Sequence[str]:
        return limit_actions.sentences(name)

    def verbs(self, row: Any) -> Iterable[str]:
        yield "resume" if row.paused else "pause"
        if row.limit_status.breakers():
            yield "unblock"

    def row_named(self, name: str) -> Limit | None:
        """Its own, or that of the pattern that applies to it."""
        rows = Limit.objects.filter
        return rows(name=name).first() or rows(name=pattern_of(name)).first()

    @admin.action(description="Remove: its pattern applies again", permissions=["change"])
    def remove(self, request: HttpRequest, queryset: QuerySet[Limit]) -> None:
        for name in queryset.values_list("name", flat=True):
            try:
                controls.remove_limit(name, actor_of(request))
            except BadInput as error:
                self.message_user(request, str(error), messages.WARNING)
            else:
                self.message_user(request, f"Removed: {name}.")

    @admin.action(description="Close the breaker now, forget what its provider left", permissions=["pause"])
    def reset_breaker(self, request: HttpRequest, queryset: QuerySet[Limit]) -> None:
        reset = controls.reset_breakers(queryset.values_list("name", flat=True), actor_of(request))
        if reset:
            names = ", ".join(some_of(reset, "more", SHOWN))
            self.message_user(request, f"Breaker closed: {names}.")
        else:
            self.message_user(request, "No breaker of these was open.", messages.WARNING)

    @admin.display(description="Service")
    def service_now(self, limit: Any) -> str:
        status: LimitStatus = limit.limit_status
        if status.is_pattern:
            return linebreaksbr(status.breakers()) or "breaker closed for every key"
        breaker = status.breaker(status.limit.name) or "breaker closed"
        return _lines((breaker, status.rate(), _failures(status)))

    @admin.display(description="In use now")
    def used_now(self, limit: Any) -> str:
        status: LimitStatus = limit.limit_status
        if status.is_pattern:
            texts = _lines((status.in_use(), *status.allowances(), *status.forecasts()))
            return format_html("{}{}", texts, _table_of_keys(status))
        return format_html("{}{}{}", status.in_use(), _table_of_allowances(status), _table_of_leases(status))

    @admin.display(description="Waits on it")
    def waits_now(self, limit: Any) -> str:
        status: LimitStatus = limit.limit_status
        rows = [
            (
                f"{stop.waiting:,}",
                stop.text,
                moment_text(stop.until, status.now) if stop.until else ENDS.get(stop.kind, "at any time"),
            )
            for stop in status.waits[:SHOWN]
        ]
        return _table(("waiting", "reason", "until"), rows, len(status.waits)) or "nothing"


def _allowed(status: LimitStatus) -> str:
    """Of its allowances the one nearest its end, and how many more there are; of a pattern the first as it is
    stated."""
    if status.is_pattern:
        return _lines(some_of(status.allowances(), "more", 1))
    rows = [
        AllowanceRow(status.limit.name, each, "") for each in status.allowance_statuses(status.limit.name)
    ]
    context = {"row": max(rows, key=lambda row: row.fullness, default=None), "more": len(rows) - 1}
    return render_to_string("admin/queuemgr/limit_fullest_allowance.html", context) if rows else ""


def _failures(status: LimitStatus) -> str:
    """Failures in a row, and how many open its breaker."""
    state = LimitState.objects.filter(name=status.limit.name).first()
    if state is None or not state.failures:
        return ""
    most = status.limit.breaker_after
    opens = f"; {most:,} open its breaker" if most else ""
    return f"{state.failures:,} failures to reach it in a row{opens}"


def _table_of_keys(status: LimitStatus) -> str:
    keys = status.keys
    allowed = bool(status.allowances())
    rows = [
        (
            key,
            f"{status.use(key).running:,}",
            *([_lines(status.allowances(key))] if allowed else []),
            status.breaker(key) or status.next_start(key) or "breaker closed",
        )
        for key in keys[:SHOWN]
    ]
    head = ("key", "in use", *(["allowances"] if allowed else []), "service")
    return _table(head, rows, len(keys))


def _table_of_allowances(status: LimitStatus) -> str:
    """Each with what is used of it and what becomes of it; of a form that is not saved, as that says."""
    name, previewed = status.limit.name, getattr(status.limit, "previewed", False)
    rows = [AllowanceRow(name, each, "") for each in status.allowance_statuses(name)]
    lines, lately = status.burn_downs(), status.used_lately()
    described = [
        (
            row,
            row.status.text(status.now),
            chart_of(row.status, lines.get(row.status.allowance.name)),
            columns_of(row.status, lately.get(row.status.allowance.name)),
        )
        for row in rows
    ]
    context = {"rows": described, "now": status.now}
    table = "admin/queuemgr/limit_allowances.html"
    return render_to_string(table, {**context, "previewed": previewed}) if rows else ""


def _table_of_leases(status: LimitStatus) -> str:
    """Its leases, oldest first."""
    held = Lease.objects.filter(_under(status.limit.name)).order_by("leased_at")
    leases = held.select_related("execution").defer(*(f"execution__{name}" for name in UNBOUNDED))
    rows = [
        (
            link(address("queuemgr_execution_change", lease.execution_id), lease.execution),
            f"{lease.phase}/{lease.step}",
            lease.weight,
            f"since {moment_text(lease.started_at or lease.leased_at, status.now)}"
            + ("" if lease.started_at else ", not started"),
        )
        for lease in leases[:SHOWN]
    ]
    return _table(("execution", "step", "weight", "held"), rows, status.use(status.limit.name).leases)


def _under(name: str) -> Q:
    """The leases under a limit that is not a pattern."""
    if name == FLEET:
        return Q()
    if name.startswith("phase:"):
        return Q(phase=name.removeprefix("phase:"))
    if is_resource(name):
        return Q(resources__startswith=f"{name}=") | Q(resources__contains=f" {name}=")
    return Q(route__limits__name=name)


ENDS = {
    "capacity": "as soon as something under it ends",
    "reserved": "as soon as the heavy work has started",
    "half_open": "as soon as one of the trial starts succeeds",
    "paused": "when someone resumes it",
}
"""The event that may end a wait, by the kind of its reason, where no time is known."""


def _lines(texts: Iterable[str]) -> str:
    return linebreaksbr("\n".join(text for text in texts if text))


def _table(head: Iterable[str], rows: Sequence[Iterable[Any]], total: int) -> str:
    """A table of the first rows, with the number of the others; empty if there are none."""
    context = {"head": head, "rows": rows, "left": total - len(rows)}
    return render_to_string("admin/queuemgr/status_table.html", context) if rows else ""
