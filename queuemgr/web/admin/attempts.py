"""Attempts, one row per lease that a worker started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from queuemgr.models import Attempt, Execution, Outcome
from queuemgr.reporting.filtering import with_key
from queuemgr.web.admin.filters import EndedFilter, PhaseFilter, PriorityFilter, recent_values
from queuemgr.web.admin.read_only_admin import ReadOnlyAdmin


def claims_text(limit_keys: str, tokens: str, weight: int) -> str:
    """`host:a.example:443 tenant:acme, weight 2, cpu=2`: limits taken besides fleet and phase."""
    parts = [limit_keys, f"weight {weight:,}" if weight > 1 else "", tokens]
    return ", ".join(text for text in parts if text)


def step_text(row: Attempt | Execution, takes: str) -> str:
    """Phase and step, and below them the limits taken."""
    step = f"{row.phase}/{row.step}"
    return format_html('{}<br><span class="quiet">{}</span>', step, takes) if takes else step


class Durations:
    @admin.display(description="takes")
    def takes(self, attempt: Attempt) -> str:
        return claims_text(attempt.limit_keys, attempt.tokens, attempt.weight)

    @admin.display(description="waited")
    def waited(self, attempt: Attempt) -> str:
        """From due to start."""
        if attempt.due_at is None:
            return "-"
        return f"{max(0.0, (attempt.started_at - attempt.due_at).total_seconds()):,.1f} s"

    @admin.display(description="took")
    def took(self, attempt: Attempt) -> str:
        return f"{(attempt.ended_at - attempt.started_at).total_seconds():.1f} s"


SUCCESS = frozenset({Outcome.DONE, Outcome.SKIPPED})


def _asks_for_errors_of_successes(query: Mapping[str, str]) -> bool:
    """There are none, but the database would read every error of the kind to find out."""
    outcomes = {*query.get("outcome__in", "").split(","), query.get("outcome__exact", "")} - {""}
    return bool(query.get("error_kind")) and bool(outcomes) and outcomes <= SUCCESS


@admin.register(Attempt)
class AttemptAdmin(Durations, ReadOnlyAdmin):
    list_display = (
        "id", "of", "at", "outcome", "retrying", "error_kind", "worker", "waited", "took", "cost",
        "ended_at",
    )  # fmt: skip
    readonly_fields = ("waited", "took")
    list_filter = (
        PhaseFilter, "outcome", "retrying", recent_values("error_kind"), PriorityFilter, EndedFilter,
    )  # fmt: skip
    search_fields = ("execution__key",)
    search_help_text = "An execution's full key."
    ordering = ("-ended_at", "-id")
    sortable_by = ()
    deferred = ("error_message", "execution__payload", "execution__context")
    list_select_related = ("execution",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request)
        return rows.none() if _asks_for_errors_of_successes(request.GET) else rows

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        key = search_term.strip()
        return queryset.filter(execution__in=with_key(key)) if key else queryset, False

    @admin.display(description="step and limits")
    def at(self, attempt: Attempt) -> str:
        return step_text(attempt, self.takes(attempt))

    @admin.display(description="execution")
    def of(self, attempt: Attempt) -> str:
        page = reverse("admin:queuemgr_execution_change", args=[attempt.execution_id])
        return format_html('<a href="{}">{}</a>', page, attempt.execution)
