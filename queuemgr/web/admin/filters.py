"""List filters whose choices do not need a scan of the table."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Max, QuerySet
from django.http import HttpRequest

from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import PRIORITIES, all_phases

RECENT = 10_000
Choices = Iterable[tuple[str, str]]


class ValueFilter(admin.SimpleListFilter):
    """One column, named by `parameter_name`, must hold the chosen value."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if value is not None and "\x00" in value:  # PostgreSQL accepts no NUL in text
            return queryset.none()
        return queryset if value is None else queryset.filter(**{str(self.parameter_name): value})


class PhaseFilter(ValueFilter):
    title = "phase"
    parameter_name = "phase"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        return [(phase, phase) for phase in all_phases()]


class PriorityFilter(admin.SimpleListFilter):
    title = "priority"
    parameter_name = "priority"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        return [(name, name) for name in PRIORITIES]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        name = self.value()
        return queryset if name is None else queryset.filter(priority=PRIORITIES.get(name))


class AgeFilter(admin.SimpleListFilter):
    """By the database's clock."""

    title = "age"
    parameter_name = "age"
    column = "created_at"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        return [("hour", "last hour"), ("day", "last 24 hours"), ("older", "older than a day")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        now = database_now()
        bounds = {
            "hour": {f"{self.column}__gte": now - timedelta(hours=1)},
            "day": {f"{self.column}__gte": now - timedelta(days=1)},
            "older": {f"{self.column}__lt": now - timedelta(days=1)},
        }
        return queryset.filter(**bounds.get(self.value() or "", {}))


class EndedFilter(AgeFilter):
    title = "ended"
    column = "ended_at"


class WhenFilter(AgeFilter):
    title = "when"
    column = "at"


def recent_values(column: str) -> type[ValueFilter]:
    """A filter that offers the values of the newest rows, for a column without an index."""

    class RecentValues(ValueFilter):
        title = column.replace("_", " ")
        parameter_name = column

        def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
            rows = model_admin.model.objects
            newest = rows.aggregate(newest=Max("pk"))["newest"] or 0
            values = rows.filter(pk__gt=newest - RECENT).order_by(column)
            return [(v, v) for v in values.values_list(column, flat=True).distinct() if v]

    return RecentValues
