"""A filter by a range of days that works without JavaScript and in links."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

FIRST_AND_LAST = ("first_day", "last_day")


class DaysFilter(admin.ListFilter):
    """Days of the column `at` in UTC, both inclusive."""

    title = "day"
    template = "admin/queuemgr/days_filter.html"

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        super().__init__(request, params, model, model_admin)
        self.first, self.last = (_day(params.pop(name, None)) for name in FIRST_AND_LAST)
        self.other_parameters: list[tuple[str, str]] = []
        """The other parameters of the list, for hidden fields of the form."""

    def expected_parameters(self) -> list[str | None]:
        return [*FIRST_AND_LAST]

    def has_output(self) -> bool:
        return True

    def choices(self, changelist: Any) -> Iterator[dict[str, Any]]:
        others = changelist.filter_params.items()
        self.other_parameters = [(n, v[0]) for n, v in others if n not in FIRST_AND_LAST]
        self.other_parameters += [("q", changelist.query)] if changelist.query else []
        everything = changelist.get_query_string(remove=FIRST_AND_LAST)
        used = self.first or self.last
        yield {"selected": not used, "query_string": everything, "display": "any day"}
        if used:
            days = f"{self.first or '…'} to {self.last or 'today'}"
            here = changelist.get_query_string({})
            yield {"selected": True, "query_string": here, "display": days}

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.first:
            queryset = queryset.filter(at__gte=_start_of(self.first))
        if self.last:
            queryset = queryset.filter(at__lt=_start_of(self.last) + timedelta(days=1))
        return queryset


def _day(given: Any) -> date | None:
    """The day in a parameter; None for an invalid one."""
    try:
        return date.fromisoformat((given or [""])[0])
    except ValueError:
        return None


def _start_of(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
