"""The filters of the list of executions, kept in the query string and shared with bulk actions.

Every filter of `reporting.filtering` works in the query string, under its own name; the form has the most
useful ones. Filters that would read every row read only the newest rows here, which the form says; bulk
actions with the same filter read them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest

from queuemgr.base.errors import BadInput
from queuemgr.base.loose_index_scan import loose_index_scan
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import PRIORITIES, all_flows, all_phases
from queuemgr.models import Execution
from queuemgr.reporting import filtering
from queuemgr.reporting.filtering import FILTERS
from queuemgr.web.admin.read_only_admin import BulkReadList
from queuemgr.web.links import address

SEARCH, AGE = "q", "age"
IN_ADDRESS = frozenset({*FILTERS, AGE} - {"ids"})

AGES = {
    "hour": ("last hour", timedelta(hours=1), "created_after"),
    "day": ("last 24 hours", timedelta(days=1), "created_after"),
    "week": ("last 7 days", timedelta(days=7), "created_after"),
    "older": ("older than a day", timedelta(days=1), "created_before"),
    "old": ("older than 7 days", timedelta(days=7), "created_before"),
}
"""Label, age, and the filter that takes the time so long ago."""


def read_filters(request: HttpRequest) -> dict[str, Any]:
    """The filters of a query string, for `executions_matching` and bulk actions.

    Raises `BadInput` for an unknown age.
    """
    given = request.GET
    filters: dict[str, Any] = {name: given[name] for name in FILTERS if given.get(name)}
    filters.pop("ids", None)
    if prefix := given.get(SEARCH, "").strip():
        filters["key_prefix"] = prefix
    if age := given.get(AGE):
        if age not in AGES:
            raise BadInput(f"age {age[:60]!r} is not one of {', '.join(AGES)}")
        _, ago, side = AGES[age]
        filters[side] = (database_now() - ago).isoformat(timespec="seconds")
    return filters


class ExecutionFilters(forms.Form):
    """The form above the list, with the values as they were entered; `read_filters` reads them."""

    q = forms.CharField(label="Key prefix", max_length=255)
    flow = forms.ChoiceField()
    status = forms.ChoiceField()
    phase = forms.ChoiceField()
    priority = forms.ChoiceField()
    error_kind = forms.ChoiceField(label="Error")
    text = forms.CharField(
        label="Words in its error", max_length=255,
        help_text=f"Searches the newest {filtering.MAX_FAILURES_READ:,} of each kind, "
        f"{filtering.MAX_FOUND:,} at most.",
    )  # fmt: skip
    limit = forms.CharField(
        label="Host, tenant or other limit", max_length=255,
        help_text="As host:a.example:443. Ended executions: among the last "
        f"{filtering.MAX_ATTEMPTS_READ:,} attempts.",
    )  # fmt: skip
    worker = forms.CharField(max_length=150, help_text="Its full name.")
    batch = forms.CharField(max_length=150, help_text="Its name or number.")
    age = forms.ChoiceField(label="Enqueued")

    def __init__(self, given: Any) -> None:
        super().__init__(given, label_suffix="")
        found = loose_index_scan(Execution, "flow", "error_kind")
        flows = {*found["flow"], *(flow.name for flow in all_flows())}
        offered: Mapping[str, Iterable[str]] = {
            "flow": sorted(flows),
            "status": filtering.statuses(),
            "phase": all_phases(),
            "priority": PRIORITIES,
            "error_kind": found["error_kind"],
        }
        for name, values in offered.items():
            self._offer(name, [(value, value) for value in values])
        self._offer(AGE, [(age, label) for age, (label, *_) in AGES.items()])
        for field in self.fields.values():
            field.required = False

    def _offer(self, name: str, choices: list[tuple[str, str]]) -> None:
        value = self.data.get(name, "")
        unknown = [(value, value)] if value and value not in dict(choices) else []
        field: Any = self.fields[name]
        field.choices = [("", "any"), *choices, *unknown]

    def others(self) -> list[tuple[str, str]]:
        """Filters in the query string that the form does not have, from a link."""
        others = [name for name in FILTERS if name not in self.fields]
        return [(name, self.data[name]) for name in others if self.data.get(name)]


class FilteredList(BulkReadList):
    """The executions that match the filters of the query string."""

    filters: Mapping[str, Any] = {}
    form: ExecutionFilters

    def get_filters_params(self, params: Any = None) -> Any:
        """Without our own filters, which Django would take for columns."""
        others = super().get_filters_params(params)
        return {name: value for name, value in others.items() if name not in IN_ADDRESS}

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        found = super().get_queryset(request, exclude_parameters)
        self.form = ExecutionFilters(request.GET)
        try:
            self.filters = read_filters(request)
            return filtering.executions_matching(self.filters, among=found, bounded=True)
        except BadInput as error:
            messages.error(request, f"Nothing is shown: {error}.")
            return found.none()

    def bulk_address(self) -> str:
        """The page of a new bulk action with these filters."""
        return address("bulk_new", **self.filters)
