"""Attempts, one row per lease that a worker started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html

from queuemgr.models import UNBOUNDED, Attempt, Execution, Outcome
from queuemgr.reporting.filtering import with_key
from queuemgr.web.admin.filters import EndedFilter, PhaseFilter, PriorityFilter, linked_value, recent_values
from queuemgr.web.admin.read_only_admin import ExtraPage, ReadOnlyAdmin
from queuemgr.web.admin.step_times import step_times_page
from queuemgr.web.links import address, link
from queuemgr.web.page_registry import page


def step_text(row: Attempt | Execution, takes: str) -> str:
    """Phase and step, and below them the limits taken besides fleet and phase."""
    step = f"{row.phase}/{row.step}"
    return format_html('{}<br><span class="quiet">{}</span>', step, takes) if takes else step


SUCCESS = frozenset({Outcome.DONE, Outcome.SKIPPED})


def _asks_for_errors_of_successes(query: Mapping[str, str]) -> bool:
    """There are none, but the database would read every error of the kind to find out."""
    outcomes = {*query.get("outcome__in", "").split(","), query.get("outcome__exact", "")} - {""}
    return bool(query.get("error_kind")) and bool(outcomes) and outcomes <= SUCCESS


@page(Attempt)
class AttemptAdmin(ReadOnlyAdmin):
    is_live = True
    list_display = (
        "id", "of", "at", "outcome", "retry", "error_kind", "worker", "waited", "took", "cost",
        "ended_at",
    )  # fmt: skip
    titles = {
        "of": "execution", "at": "step and limits", "retry": "retry", "waited": "waited", "took": "took",
    }  # fmt: skip
    readonly_fields = ("waited", "took")
    list_filter = (
        PhaseFilter, "outcome", "retrying", recent_values("error_kind"), PriorityFilter, EndedFilter,
        linked_value("outcome__in", "outcomes", split=True),
    )  # fmt: skip
    search_fields = ("execution__key",)
    search_help_text = "An execution's full key."
    ordering = ("-ended_at", "-id")
    sortable_by = ()
    reads_detail = True
    deferred = ("error_message", "traceback", "log", *(f"execution__{name}" for name in UNBOUNDED))
    list_select_related = ("execution",)

    def pages(self) -> Iterable[ExtraPage]:
        yield ExtraPage("steps/", step_times_page, "step_times")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request)
        return rows.none() if _asks_for_errors_of_successes(request.GET) else rows

    def get_exclude(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return () if request.user.has_perm("queuemgr.view_payload") else ("log",)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        key = search_term.strip()
        return queryset.filter(execution__in=with_key(key)) if key else queryset, False

    def read_page(self, rows: Sequence[Any]) -> None:
        for row in rows:
            row.of = link(address("queuemgr_execution_change", row.execution_id), row.execution)
            takes = (row.limit_keys, f"weight {row.weight:,}" if row.weight > 1 else "", row.resources)
            row.at = step_text(row, ", ".join(filter(None, takes)))
            row.retry = "yes" if row.retrying else ""
            row.took = f"{(row.ended_at - row.started_at).total_seconds():.1f} s"
            waited = (row.started_at - (row.due_at or row.started_at)).total_seconds()
            row.waited = f"{max(0.0, waited):,.1f} s" if row.due_at else "-"
