"""Daily usage: requests spent, by day and limit, beside the budget there is today."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import DailyUsage, Limit
from queuemgr.scheduling.admission import rule_for
from queuemgr.scheduling.limit_rules import rules_of
from queuemgr.web.admin.filters import Choices
from queuemgr.web.admin.read_only_admin import ReadOnlyAdmin

OFFERED = 50
"""Limits the filter names; the others are met by search."""


class LimitFilter(admin.SimpleListFilter):
    """By a limit there is a row for; a pattern stands for all of its keys."""

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


@admin.register(DailyUsage)
class DailyUsageAdmin(ReadOnlyAdmin):
    list_display = ("day", "limit", "spent", "budget")
    list_filter = ("day", LimitFilter)
    search_fields = ("limit__startswith",)
    search_help_text = "The beginning of a limit's name."
    sortable_by = ("day", "spent")

    def read_page(self, rows: Sequence[Any]) -> None:
        rules = rules_of({row.limit for row in rows}, database_now()) if rows else {}
        for row in rows:
            row.budget = rule_for(rules, row.limit).daily_budget

    @admin.display(description="budget today", empty_value="")
    def budget(self, row: Any) -> str:
        return "" if row.budget is None else f"{row.budget:,}"
