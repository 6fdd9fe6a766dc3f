"""Executions: where each stands and why it waits; retry, cancel, raise and lower priority."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.db.models import Count, F, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.timesince import timesince

from queuemgr import explain, steering
from queuemgr.admin.attempts import AttemptInline, claims_text, step_text
from queuemgr.admin.filters import (
    AgeFilter,
    ErrorKindFilter,
    FlowFilter,
    PhaseFilter,
    PriorityFilter,
    StatusFilter,
)
from queuemgr.admin.read_only import ReadOnlyAdmin, by
from queuemgr.controls import By
from queuemgr.errors import SluiceError, UnknownFlow
from queuemgr.flow import HIGH, LOW, NORMAL, get_flow
from queuemgr.key_search import with_key_from
from queuemgr.models import NOT_TRIES, Attempt, Execution, State
from queuemgr.redaction import masked

Verb = Callable[[QuerySet[Execution], By], int]


@admin.register(Execution)
class ExecutionAdmin(ReadOnlyAdmin):
    list_display = (
        "key", "flow", "status", "at", "priority", "why", "tries", "error_kind", "age",
    )  # fmt: skip
    list_filter = (
        FlowFilter, PhaseFilter, StatusFilter, ErrorKindFilter, PriorityFilter, AgeFilter,
    )  # fmt: skip
    search_fields = ("key",)
    search_help_text = "The beginning of a key, or all of it."
    ordering = ("-id",)
    sortable_by = ()
    unlisted = ("payload", "context")
    recorded = True
    actions = ("retry", "cancel", "raise_priority", "lower_priority")
    inlines = (AttemptInline,)
    list_select_related = ("route",)
    readonly_fields = (
        "status", "why_it_waits", "not_before", "document", "takes", "payload_text", "context_text",
    )  # fmt: skip
    fieldsets = (
        (None, {"fields": ("key", "flow", "document", "status", "why_it_waits", "not_before")}),
        (
            "Where it stands",
            {"fields": (("phase", "step", "priority"), ("state", "takes", "resumed"))},
        ),
        ("When", {"fields": (("created_at", "run_after"), ("tries_from", "finished_at"))}),
        ("Last error", {"fields": ("error_kind", "error_message")}),
        ("What it was given, and learnt", {"fields": ("payload_text", "context_text")}),
    )

    def read_page(self, rows: Sequence[Any]) -> None:
        tries, reasons = _tries(rows), explain.reasons()
        for row in rows:
            row.why = reasons.of(row)
            row.tries = tries.get(row.pk, 0)
            row.age = timesince(row.created_at, reasons.now, depth=1)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        return with_key_from(queryset, term) if term else queryset, False

    @admin.display(description="why it waits")
    def why(self, row: Any) -> str:
        return str(row.why)

    @admin.display(description="tries")
    def tries(self, row: Any) -> int:
        return int(row.tries)

    @admin.display(description="age")
    def age(self, row: Any) -> str:
        return str(row.age)

    @admin.display(description="step and limits")
    def at(self, row: Execution) -> str:
        return step_text(row, row.route.limit_keys if row.route else "")

    @admin.display(description="takes")
    def takes(self, execution: Execution) -> str:
        route = execution.route
        return claims_text(route.limit_keys, route.tokens, route.weight) if route else ""

    def get_object(self, request: HttpRequest, *given: Any, **named: Any) -> Any:
        execution = super().get_object(request, *given, **named)
        if execution is not None:
            execution.reasons = explain.reasons()
        return execution

    @admin.display(description="why it waits")
    def why_it_waits(self, execution: Any) -> str:
        return str(execution.reasons.of(execution))

    @admin.display(description="can change")
    def not_before(self, execution: Any) -> str:
        """The earliest time at which all that is known to stop it may have ended."""
        if execution.state != State.WAITING:
            return "-"
        earliest = execution.reasons.not_before(execution)
        return f"not before {earliest:%Y-%m-%d %H:%M:%S} UTC" if earliest else "at any moment"

    @admin.display(description="document")
    def document(self, execution: Execution) -> str:
        address = _document_address(execution)
        return format_html('<a href="{}">{}</a>', address, execution.key) if address else "-"

    @admin.display(description="payload")
    def payload_text(self, execution: Execution) -> str:
        return _indented(execution.payload)

    @admin.display(description="context")
    def context_text(self, execution: Execution) -> str:
        return _indented(execution.context)

    @admin.action(description="Retry", permissions=["change"])
    def retry(self, request: HttpRequest, queryset: QuerySet[Execution]) -> None:
        self._act(request, queryset, _over_rows(steering.retry), "told to go on")

    @admin.action(description="Cancel", permissions=["change"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Execution]) -> None:
        self._act(request, queryset, _over_rows(steering.cancel), "cancelled or asked to stop")

    @admin.action(description="Raise priority", permissions=["change"])
    def raise_priority(self, request: HttpRequest, queryset: QuerySet[Execution]) -> None:
        self._act(request, queryset, partial(_shift, moves=RAISE), "raised in priority")

    @admin.action(description="Lower priority", permissions=["change"])
    def lower_priority(self, request: HttpRequest, queryset: QuerySet[Execution]) -> None:
        self._act(request, queryset, partial(_shift, moves=LOWER), "lowered in priority")

    def _act(
        self, request: HttpRequest, queryset: QuerySet[Execution], verb: Verb, became: str
    ) -> None:
        try:
            changed = verb(queryset, by(request))
        except SluiceError as error:
            self.message_user(request, f"Stopped before the end: {error}", messages.ERROR)
            return
        level = messages.SUCCESS if changed else messages.WARNING
        noun = "execution was" if changed == 1 else "executions were"
        self.message_user(request, f"{changed:,} {noun} {became}.", level)


def _rows(queryset: QuerySet[Execution]) -> Iterable[Execution]:
    """The selected rows, of which the verbs only want the ids: never their payloads."""
    return queryset.select_related(None).only("pk").order_by("pk").iterator()


def _over_rows(verb: Callable[[Iterable[Execution], By], int]) -> Verb:
    return lambda queryset, by: verb(_rows(queryset), by)


RAISE = ((NORMAL, HIGH), (LOW, NORMAL))
LOWER = ((NORMAL, LOW), (HIGH, NORMAL))
"""Moves from one priority to the next, the far end first so that nothing is moved twice."""


def _shift(queryset: QuerySet[Execution], by: By, moves: Iterable[tuple[int, int]]) -> int:
    unfinished = queryset.exclude(state=State.DONE)
    return sum(
        steering.set_priority(_rows(unfinished.filter(priority=here)), there, by)
        for here, there in moves
    )


def _tries(rows: Sequence[Execution]) -> dict[int, int]:
    """Tries of the step each stands at, since it came there or a person last retried it."""
    at_its_step = {"phase": F("execution__phase"), "step": F("execution__step")}
    tried = (
        Attempt.objects.filter(execution__in=[row.pk for row in rows], **at_its_step)
        .filter(leased_at__gte=F("execution__tries_from"))
        .exclude(outcome__in=NOT_TRIES)
    )
    return dict(tried.order_by().values_list("execution_id").annotate(n=Count("pk")))


def _document_address(execution: Execution) -> str:
    """The page its flow has about it, if any."""
    try:
        return get_flow(execution.flow).link(execution.key)
    except UnknownFlow:
        return ""


def _indented(given: dict[str, Any]) -> str:
    text = json.dumps(masked(given), indent=2, ensure_ascii=False, sort_keys=True)
    return format_html('<pre style="white-space: pre-wrap; overflow-wrap: anywhere">{}</pre>', text)
