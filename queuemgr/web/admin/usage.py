"""Usage: what was spent of each meter by period and limit, with what is allowed now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from queuemgr.base.meters import meter_or_plain
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import AllowanceUsage, Limit
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


@page(AllowanceUsage)
class AllowanceUsageAdmin(ReadOnlyAdmin):
    list_display = ("starts_at", "limit", "allowance", "used", "allowed")
    titles = {"starts_at": "from", "allowance": "period", "used": "used", "allowed": "allowed now"}
    list_filter = ("starts_at", LimitFilter)
    search_fields = ("limit__startswith",)
    search_help_text = "A prefix of a limit's name."
    sortable_by = ("starts_at",)
    list_tools_template = "admin/queuemgr/usage_tools.html"

    def pages(self) -> Iterable[ExtraPage]:
        yield ExtraPage("costs/", costs.view, "costs")
        yield ExtraPage("costs/csv/", costs.download, "costs_csv")

    def read_page(self, rows: Sequence[Any]) -> None:
        rules = rules_of({row.limit for row in rows}, database_now()) if rows else {}
        for row in rows:
            meter = meter_or_plain(row.allowance.partition("/")[0])
            stated = {each.name: each for each in rule_for(rules, row.limit).allowances}
            row.used = meter.text(row.spent)
            row.allowed = meter.text(stated[row.allowance].amount) if row.allowance in stated else ""
