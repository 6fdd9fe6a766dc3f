"""The filters of the list of executions: a form in the address, the same filter as a bulk action's.

Every filter of `reporting.filtering` may stand in the address, under its own name; the form offers those
people use. A filter that would read every row reads the newest only here, and the form says so; a
bulk action with the same filter reads all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.http import urlencode

from queuemgr.base.errors import BadInput
from queuemgr.base.loose_index_scan import loose_index_scan
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import PRIORITIES, all_flows, all_phases
from queuemgr.models import Execution
from queuemgr.reporting.filtering import (
    FILTERS,
    MAX_ATTEMPTS_READ,
    MAX_FAILURES_READ,
    MAX_FOUND,
    executions_matching,
    statuses,
)
from queuemgr.web.admin.read_only_admin import Page

SEARCH, AGE = "q", "age"
IN_ADDRESS = frozenset({*FILTERS, AGE} - {"ids"})

AGES = {
    "hour": ("last hour", timedelta(hours=1), "created_after"),
    "day": ("last 24 hours", timedelta(days=1), "created_after"),
    "week": ("last 7 days", timedelta(days=7), "created_after"),
    "older": ("older than a day", timedelta(days=1), "created_before"),
    "old": ("older than 7 days", timedelta(days=7), "created_before"),
}
"""By what people call it: how long ago, and which side of that moment."""


def asked_of(request: HttpRequest) -> dict[str, Any]:
    """The filter an address asks for, as `executions_matching` and bulk actions take it.

    Raises `BadInput` for an age nobody knows.
    """
    given = request.GET
    asked: dict[str, Any] = {name: given[name] for name in FILTERS if given.get(name)}
    asked.pop("ids", None)
    if prefix := given.get(SEARCH, "").strip():
        asked["key_prefix"] = prefix
    if age := given.get(AGE):
        if age not in AGES:
            raise BadInput(f"age {age[:60]!r} is not one of {', '.join(AGES)}")
        _, ago, side = AGES[age]
        asked[side] = (database_now() - ago).isoformat(timespec="seconds")
    return asked


class ExecutionFilters(forms.Form):
    """The form above the list. What it holds is shown as it was typed; `asked_of` reads it."""

    q = forms.CharField(label="Key begins with", max_length=255)
    flow = forms.ChoiceField()
    status = forms.ChoiceField()
    phase = forms.ChoiceField()
    priority = forms.ChoiceField()
    error_kind = forms.ChoiceField(label="Error")
    text = forms.CharField(
        label="In its error message", max_length=255,
        help_text=f"Of the newest {MAX_FAILURES_READ:,} of each kind, {MAX_FOUND:,} at most.",
    )  # fmt: skip
    limit = forms.CharField(
        label="Host, tenant or other limit", max_length=255,
        help_text=f"As host:a.example:443. Ended ones: of the last {MAX_ATTEMPTS_READ:,} attempts.",
    )  # fmt: skip
    worker = forms.CharField(max_length=150, help_text="Its whole name.")
    batch = forms.CharField(max_length=150, help_text="Its name or number.")
    age = forms.ChoiceField(label="Enqueued")

    def __init__(self, given: Any) -> None:
        super().__init__(given, label_suffix="")
        found = loose_index_scan(Execution, "flow", "error_kind")
        flows = {*found["flow"], *(flow.name for flow in all_flows())}
        offered: Mapping[str, Iterable[str]] = {
            "flow": sorted(flows),
            "status": statuses(),
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
        held = self.data.get(name, "")
        unheard = [(held, held)] if held and held not in dict(choices) else []
        field: Any = self.fields[name]
        field.choices = [("", "any"), *choices, *unheard]

    def others(self) -> list[tuple[str, str]]:
        """Filters the address holds and the form does not offer: a link brought them."""
        mine = {*self.fields}
        return [
            (name, self.data[name]) for name in FILTERS if self.data.get(name) and name not in mine
        ]


class MatchingPage(Page):
    """The list of what the filter in the address meets; `asked` is that filter."""

    asked: Mapping[str, Any] = {}
    form: ExecutionFilters

    def get_filters_params(self, params: Any = None) -> Any:
        """Without our own, which Django would take for columns."""
        others = super().get_filters_params(params)
        return {name: value for name, value in others.items() if name not in IN_ADDRESS}

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        found = super().get_queryset(request, exclude_parameters)
        self.form = ExecutionFilters(request.GET)
        try:
            self.asked = asked_of(request)
            return executions_matching(self.asked, among=found, bounded=True)
        except BadInput as error:
            messages.error(request, f"Nothing is shown: {error}.")
            return found.none()

    def bulk_address(self, verb: str = "") -> str:
        """Where a bulk action on all that match begins; empty where the site has none."""
        return bulk_address(self.asked, verb)


def bulk_address(asked: Mapping[str, Any], verb: str = "") -> str:
    try:
        page = reverse("admin:bulk_new")
    except NoReverseMatch:
        return ""
    given = {**asked, **({"verb": verb} if verb else {})}
    return f"{page}?{urlencode(given)}" if given else page
