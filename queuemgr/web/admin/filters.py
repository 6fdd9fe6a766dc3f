"""List filters whose choices do not need a scan of the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time
from typing import Any

from django.contrib import admin
from django.db.models import Max, Q, QuerySet
from django.http import HttpRequest

from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import PRIORITIES, all_phases
from queuemgr.reporting.list_query import AGES

RECENT = 10_000
Choices = Iterable[tuple[str, str]]


class ChoiceFilter(admin.SimpleListFilter):
    """Choices, each with its condition on the rows; a value that is none of them matches nothing."""

    labels: Mapping[str, str] = {}
    """Of choices shown as other words than their value in the address."""

    @property
    def conditions(self) -> Mapping[str, Q]:
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        return [(value, self.labels.get(value, value)) for value in self.conditions]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if value is None:
            return queryset
        condition = self.conditions.get(value)
        return queryset.none() if condition is None else queryset.filter(condition)


class ValueFilter(admin.SimpleListFilter):
    """One column, named by `parameter_name`, must hold the chosen value."""

    def has_output(self) -> bool:
        """Django would not apply a filter whose value is given while it has none to offer."""
        return super().has_output() or self.value() is not None

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if value is None:
            return queryset
        if "\x00" in value:  # PostgreSQL accepts no NUL in text
            return queryset.none()
        try:
            return queryset.filter(**{str(self.parameter_name): self.parse(value)})
        except ValueError:  # no number, for a column of numbers
            return queryset.none()

    def parse(self, value: str) -> Any:
        """The value in the address as the look-up takes it."""
        return value


class PhaseFilter(ValueFilter):
    title = parameter_name = "phase"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        return [(phase, phase) for phase in all_phases()]


class PriorityFilter(ChoiceFilter):
    title = parameter_name = "priority"
    conditions = {name: Q(priority=rank) for name, rank in PRIORITIES.items()}


class AgeFilter(ChoiceFilter):
    """By the database's clock."""

    title = parameter_name = "age"
    column = "created_at"
    offered = ("hour", "day", "older")
    labels = {name: age.label for name, age in AGES.items()}

    @property
    def conditions(self) -> Mapping[str, Q]:
        now, ages = database_now(), {name: AGES[name] for name in self.offered}
        return {
            name: Q((f"{self.column}__{'gte' if age.newer else 'lt'}", now - age.ago))
            for name, age in ages.items()
        }


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
            newest = model_admin.model.objects.aggregate(newest=Max("pk"))["newest"] or 0
            values = model_admin.get_queryset(request).filter(pk__gt=newest - RECENT).order_by(column)
            return [(v, v) for v in values.values_list(column, flat=True).distinct() if v]

    return RecentValues


def linked_value(lookup: str, words: str, split: bool = False) -> type[ValueFilter]:
    """A filter that only links have: shown once it is used, with its value. `split`: several, by commas."""

    class LinkedValue(ValueFilter):
        title = words
        parameter_name = lookup

        def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
            value = self.value()
            return [] if value is None else [(value, value.replace(",", ", "))]

        def parse(self, value: str) -> Any:
            return value.split(",") if split else value

    return LinkedValue


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
            queryset = queryset.filter(at__lte=datetime.combine(self.last, time.max, UTC))
        return queryset


def _day(values: Any) -> date | None:
    """The day in a parameter; None for an invalid one."""
    try:
        return date.fromisoformat((values or [""])[0])
    except ValueError:
        return None


def _start_of(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
