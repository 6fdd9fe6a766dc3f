"""The form of a new bulk action: a filter, an action and its argument, filled from the query string."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django import forms

from queuemgr.base.errors import BadInput
from queuemgr.flows.flow import PRIORITIES, all_flows, all_phases
from queuemgr.models import State
from queuemgr.operations.bulk import BulkRequest
from queuemgr.operations.bulk.actions import Action
from queuemgr.reporting.filtering import FILTERS

ARGUMENT = "to_"
"""Prefix of the field of an action's argument: `priority` is the filter."""

NOT_FILTERS = ("verb", "per_minute", "reason", "up_to", "csrfmiddlewaretoken")
MAX_PER_MINUTE = 2_000_000

_HELP = {
    "key_prefix": "A prefix of the key.",
    "limit": "As host:api.example.org:443, tenant:acme.",
    "text": "Words in its error message.",
    "batch": "Its name or number.",
    "ids": "Comma-separated numbers.",
    "created_before": "Format: 2026-11-28 06:00, UTC.",
    "created_after": "Format: 2026-11-28 06:00, UTC.",
}


class BulkForm(forms.Form):
    """All filters, with their values as they were entered."""

    verb = forms.ChoiceField(label="Action")
    to_priority = forms.ChoiceField(label="New priority", help_text="Only for priority.", required=False)
    to_run_after = forms.CharField(
        label="Not before",
        help_text="Only for reschedule. Format: 2026-11-28 06:00, UTC. A past time: now.",
        required=False,
    )

    def __init__(self, given: Any, verbs: Iterable[Action]) -> None:
        super().__init__(initial={name: given.get(name, "") for name in given})
        self._choose("verb", ((verb.name, f"{verb.name}: each {verb.does}") for verb in verbs))
        self._choose("to_priority", _any_of(PRIORITIES))
        for name in FILTERS:
            self.fields[name] = _field(name)

    def _choose(self, name: str, choices: Iterable[tuple[str, str]]) -> None:
        field: Any = self.fields[name]
        field.choices = choices

    def action_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in ("verb", "to_priority", "to_run_after")]

    def filter_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in FILTERS]


def _field(name: str) -> forms.Field:
    label = name.replace("_", " ").capitalize()
    offered: Mapping[str, Iterable[str]] = {
        "flow": (flow.name for flow in all_flows()),
        "phase": all_phases(),
        "state": map(str, State),
        "priority": PRIORITIES,
    }
    if name in offered:
        return forms.ChoiceField(label=label, choices=_any_of(offered[name]), required=False)
    return forms.CharField(label=label, help_text=_HELP.get(name, ""), required=False)


def _any_of(values: Iterable[str]) -> list[tuple[str, str]]:
    return [("", "any"), *((value, value) for value in values)]


def read_request(given: Any) -> BulkRequest:
    """The bulk action of a query or a posted form. Unknown names are passed as filters and refused
    there: a mistyped filter must not match every execution. Raises `BadInput`."""
    names = [name for name in given if given[name].strip()]
    arguments = {n.removeprefix(ARGUMENT): given[n] for n in names if n.startswith(ARGUMENT)}
    filters = {n: given[n].strip() for n in names if n not in NOT_FILTERS and not n.startswith(ARGUMENT)}
    if "ids" in filters:
        filters["ids"] = _ids(filters["ids"])
    return BulkRequest(
        verb=given.get("verb", ""),
        filters=filters,
        arguments=arguments,
        per_minute=_number(given, "per_minute", MAX_PER_MINUTE),
        up_to=_number(given, "up_to", 2**63 - 1),
    )


def _ids(text: str) -> Any:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise BadInput(f"ids {text[:60]!r} are not comma-separated numbers") from None


def _number(given: Any, name: str, maximum: int) -> int | None:
    text = given.get(name, "").strip()
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 19 or int(text) > maximum:
        raise BadInput(f"{name} {text[:60]!r} is not a whole number from 0 to {maximum:,}")
    return int(text)
