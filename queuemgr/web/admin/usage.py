"""Daily usage: requests spent by day and limit, with the current budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import DailyUsage, Limit
from queuemgr.scheduling.decision_input import rule_for
from queuemgr.scheduling.limit_rules import rules_of
from queuemgr.web.admin import costs
from queuemgr.web.admin.filters import Choices, ValueFilter
from queuemgr.web.admin.read_only_admin import ExtraPage, ReadOnlyAdmin
from queuemgr.web.page_registry import page

OFFERED = 50
"""Maximum number of limits in the filter; others are found by search."""


class LimitFilter(ValueFilter):
    """By a limit with a row; a pattern includes all of its keys."""

    title = "limit"
    parameter_name = "limit"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        return [(name, name) for name in Limit.objects.values_list("name", flat=True)[:OFFERED]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        name = self.value()
        if name is None:
            return queryset
        if name.endswith("*"):
            return queryset.filter(limit__startswith=name[:-1])
        return queryset.filter(limit=name)


@page(DailyUsage)
class DailyUsageAdmin(ReadOnlyAdmin):
    list_display = ("day", "limit", "spent", "budget")
    titles = {"budget": "budget today"}
    list_filter = ("day", LimitFilter)
    search_fields = ("limit__startswith",)
    search_help_text = "A prefix of a limit's name."
    sortable_by = ("day", "spent")
    list_tools_template = "admin/queuemgr/usage_tools.html"

    def pages(self) -> Iterable[ExtraPage]:
        yield ExtraPage("costs/", costs.view, "costs")
        yield ExtraPage("costs/csv/", costs.download, "costs_csv")

    def read_page(self, rows: Sequence[Any]) -> None:
        rules = rules_of({row.limit for row in rows}, database_now()) if rows else {}
        for row in rows:
            budget = rule_for(rules, row.limit).daily_budget
            row.budget = "" if budget is None else f"{budget:,}"
