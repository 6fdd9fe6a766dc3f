"""The filters of the list of executions, kept in the query string and shared with bulk actions.

Every filter of `reporting.filtering` works in the query string, under its own name; the form has the most
useful ones. Filters that would read every row read only the newest rows here, which the form says; bulk
actions with the same filter read them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from django import forms
from django.contrib import messages
from django.contrib.admin.views.main import PAGE_VAR
from django.core.exceptions import EmptyResultSet
from django.http import HttpRequest
from django.utils.functional import cached_property

from queuemgr.base import sql
from queuemgr.base.bounded_reading import TookTooLong, bounded
from queuemgr.base.errors import BadInput
from queuemgr.base.queue_database import get_connection
from queuemgr.models import ExecutionQuerySet, State
from queuemgr.reporting import filtering
from queuemgr.reporting.filtering import FILTERS
from queuemgr.reporting.list_query import AGE, AGES, IN_ADDRESS, SEARCH, filters_in
from queuemgr.web.admin.read_only_admin import MAX_COUNT, AtLeast, BulkReadList
from queuemgr.web.links import address

BY_STATE = ("state", "status")
COUNT_SECONDS = 0.3
"""Tabs have no numbers where counting takes longer."""

OFFERED = ("flow", "status", "phase", "priority", "error_kind", "text", "limit", "worker", "batch")
"""Filters that the form always has, besides the prefix of the key and the age."""


def read_filters(request: HttpRequest) -> dict[str, Any]:
    """The filters of a query string, for `executions_matching` and bulk actions.

    Raises `BadInput` for an unknown age.
    """
    return filters_in(request.GET)


class ExecutionFilters(forms.Form):
    """The form above the list, with the values as they were entered; `read_filters` reads them.

    A filter that it does not offer is shown when a link has it.
    """

    def __init__(self, given: Any) -> None:
        super().__init__(given, label_suffix="")
        linked = [name for name in FILTERS if name in IN_ADDRESS and name not in OFFERED and given.get(name)]
        ages = [(name, age.label) for name, age in AGES.items()]
        self.fields |= {
            SEARCH: filter_field("key_prefix", bounded=True),
            **{name: filter_field(name, given.get(name, ""), bounded=True) for name in OFFERED},
            AGE: choice_field("Enqueued", ages, given.get(AGE, "")),
            **{name: filter_field(name, given[name], bounded=True) for name in linked},
        }


def filter_field(name: str, value: str = "", *, bounded: bool = False) -> forms.Field:
    """The field of a filter; `value`: what was entered; `bounded`: for a page that reads the newest rows."""
    described = FILTERS[name]
    help_text = " ".join(filter(None, (described.help, described.bounded_help if bounded else "")))
    if described.choices is not None:
        return choice_field(described.label, [(one, one) for one in described.choices()], value, help_text)
    longest = None if name == "ids" else filtering.MAX_CHARACTERS
    return forms.CharField(label=described.label, help_text=help_text, max_length=longest, required=False)


def choice_field(
    label: str, choices: list[tuple[str, str]], value: str = "", help_text: str = ""
) -> forms.ChoiceField:
    """A choice or none; a value that is none of them stays chosen, as it was entered."""
    unknown = [(value, value)] if value and value not in dict(choices) else []
    offered = [("", "any"), *choices, *unknown]
    return forms.ChoiceField(label=label, choices=offered, help_text=help_text, required=False)


@dataclass(frozen=True)
class Tab:
    """`count`: None where it takes too long to count; `chosen`: this one is shown."""

    label: str
    address: str
    count: int | None
    chosen: bool


class _Counted(NamedTuple):
    state: str
    number: int


def state_counts(found: ExecutionQuerySet) -> dict[str, int]:
    """How many of these are in each state, each counted up to the bound of lists; empty where that takes too
    long."""
    counts, parameters = [], list[Any]()
    for state in State.values:
        some = found.filter(state=state).order_by().values("pk")[: MAX_COUNT + 1]
        try:
            rows, values = some.query.get_compiler(connection=get_connection()).as_sql()
        except EmptyResultSet:
            rows, values = "SELECT 1 WHERE 1 = 0", ()
        counts.append(f"SELECT '{state}', COUNT(*) FROM ({rows}) counted")
        parameters += values
    try:
        with bounded(COUNT_SECONDS):
            read = sql.rows(_Counted, " UNION ALL ".join(counts), parameters)
    except TookTooLong:
        return {}
    return {state: AtLeast(MAX_COUNT) if count > MAX_COUNT else count for state, count in read}


class FilteredList(BulkReadList):
    """The executions that match the filters of the query string."""

    filters: Mapping[str, Any] = {}
    form: ExecutionFilters
    in_any_state: Any = None
    """What the other filters find."""

    problem = ""
    """Why nothing is shown."""

    def get_filters_params(self, params: Any = None) -> Any:
        """Without our own filters, which Django would take for columns."""
        others = super().get_filters_params(params)
        return {name: value for name, value in others.items() if name not in IN_ADDRESS}

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        found = super().get_queryset(request, exclude_parameters)
        self.request, self.form = request, ExecutionFilters(request.GET)
        try:
            self.filters = read_filters(request)
            by_state = {name: self.filters[name] for name in BY_STATE if name in self.filters}
            others = {name: value for name, value in self.filters.items() if name not in by_state}
            self.in_any_state = filtering.executions_matching(others, among=found, bounded=True)
            return filtering.executions_matching(by_state, among=self.in_any_state)
        except BadInput as error:
            self.problem = str(error)
            messages.error(request, f"Nothing is shown: {error}.")
            return found.none()

    def shown(self) -> Iterator[str]:
        yield from super().shown()
        yield from (f"{tab.label} {tab.count}" for tab in self.tabs)

    @cached_property
    def tabs(self) -> list[Tab]:
        """A link for each state, with the other filters as they are; and for all states."""
        counts = {} if self.in_any_state is None else state_counts(self.in_any_state)
        chosen = None if "status" in self.filters else self.filters.get("state", "")
        return [
            Tab(state or "all", f"?{self._given(state)}", counts.get(state), state == chosen)
            for state in ("", *State.values)
        ]

    def _given(self, state: str) -> str:
        given = self.request.GET.copy()
        for name in (*BY_STATE, PAGE_VAR):
            given.pop(name, None)
        if state:
            given["state"] = state
        return given.urlencode()

    def bulk_address(self) -> str:
        """The page of a new bulk action with these filters."""
        return address("bulk_new", **self.filters)
