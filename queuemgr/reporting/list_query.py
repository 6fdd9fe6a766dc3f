"""The query string of the list of executions, as its page and saved views have it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from queuemgr.base.errors import BadInput
from queuemgr.base.scheduler_lock import database_now
from queuemgr.reporting.filtering import FILTERS

SEARCH, AGE = "q", "age"
IN_ADDRESS = frozenset({*FILTERS, AGE} - {"ids"})


class Age(NamedTuple):
    """`newer`: what is newer than `ago`; otherwise what is older."""

    label: str
    ago: timedelta
    newer: bool


AGES: Mapping[str, Age] = {
    "hour": Age("last hour", timedelta(hours=1), newer=True),
    "day": Age("last 24 hours", timedelta(days=1), newer=True),
    "week": Age("last 7 days", timedelta(days=7), newer=True),
    "older": Age("older than a day", timedelta(days=1), newer=False),
    "old": Age("older than 7 days", timedelta(days=7), newer=False),
}


def filters_in(given: Mapping[str, Any]) -> dict[str, Any]:
    """The filters for `executions_matching` and bulk actions. Raises `BadInput` for an unknown age."""
    filters: dict[str, Any] = {name: given[name] for name in FILTERS if given.get(name)}
    filters.pop("ids", None)
    if prefix := given.get(SEARCH, "").strip():
        filters["key_prefix"] = prefix
    if age := given.get(AGE):
        if age not in AGES:
            raise BadInput(f"age {age[:60]!r} is not one of {', '.join(AGES)}")
        side = "created_after" if AGES[age].newer else "created_before"
        filters[side] = (database_now() - AGES[age].ago).isoformat(timespec="seconds")
    return filters


def filters_of_view(query: str) -> dict[str, Any]:
    """The filters of a saved view. Raises `BadInput` where one of them is not there any more."""
    given = dict(parse_qsl(query))
    if gone := sorted(given.keys() - IN_ADDRESS - {SEARCH}):
        raise BadInput(f"the list of executions has no filter {gone[0][:60]!r}")
    return filters_in(given)
