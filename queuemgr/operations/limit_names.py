"""Which names of limits mean something: a mistyped one must not become a limit that no work ever passes.

A name is known by its row, by the flows of this process, which say under which names their work runs
(`host:*`), and by work there has been. Of a key that comes later the part before its colon is known.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from django.db.models import Q

from queuemgr.base.errors import BadInput
from queuemgr.flows.flow import all_flows, all_phases, all_queues
from queuemgr.flows.payload_validation import MAX_KEY, check_text
from queuemgr.models import Limit, Route, RouteLimit
from queuemgr.scheduling import limit_rows
from queuemgr.scheduling.claims import FLEET

KEY = re.compile(r"[^\s:*]+:[^\s*]*\*?")
RESOURCE = re.compile(r"[^\s:*=]+")
RESERVED = {"everything", "all", "virtual_time", "workers", "retries", "run_after", "batch_window"}
"""Words with another meaning wherever limits are named."""


MOST_LISTED, MOST_COMPARED = 100, 2_000
"""Names that an error shows, and among which it looks for the one that may be meant."""


class UnknownLimit(BadInput):
    """No flow runs work under a limit of this name."""


def limit_to_edit(name: str, *, new: bool = False, also: Collection[str] = ()) -> Limit:
    """The row of a limit, or an unsaved one with the values of its pattern for a name that is known; with
    `new`, for any that work could run under. Raises `UnknownLimit` and `BadInput`."""
    check_text("limit", name, MAX_KEY)
    limit_rows.ensure()  # no worker may have started yet
    row: Limit | None = Limit.objects.filter(name=name).first()
    if row is None and not new:
        check_known(name, also)
    if row is None and name not in _named_by_flows():
        check_form(name)
    return row or limit_rows.new_limit(name)


def is_resource(name: str) -> bool:
    """Is it a resource: neither the fleet, a phase, a queue nor a reserved word?"""
    others = {FLEET, *all_phases(), *all_queues(), *RESERVED}
    return bool(RESOURCE.fullmatch(name)) and name not in others


def refused(name: str, values: Mapping[str, Any]) -> dict[str, str]:
    """The fields among these values that a limit of this name cannot have, and why."""
    said = [field for field in limit_rows.OF_USE if values.get(field)]
    return dict.fromkeys(said, limit_rows.NOT_OF_A_RESOURCE) if said and _counts_no_use(name) else {}


def _counts_no_use(name: str) -> bool:
    """Is it a resource, as the settings or steps name them, and no key?"""
    if not is_resource(name) or RouteLimit.objects.filter(name=name).exists():
        return False
    return name in limit_rows.RESOURCES or Route.objects.filter(_of_resource(name)).exists()


def check_form(name: str) -> None:
    """Raise `BadInput` for a name under which no work could ever run."""
    phases = [f"phase:{phase}" for phase in all_phases()]
    is_key = KEY.fullmatch(name) and not name.startswith("phase:") and not name.endswith(":")
    if not (name == FLEET or name in phases or is_resource(name) or is_key):
        raise BadInput(
            f"{name!r} is not a limit's name. Valid are: {FLEET}; {', '.join(phases)}; a resource such as "
            "cpu, as steps name them; a key such as host:api.example.org:443; or a pattern such as host:*, "
            "with its star at the end"
        )


def check_known(name: str, also: Collection[str] = ()) -> None:
    """Raise `UnknownLimit` for a name that nothing knows, with the one that may be meant: a limit's, or one
    of `also`."""
    known = {*Limit.objects.values_list("name", flat=True), *_named_by_flows()}
    if not (_is_one_of(name, known) or _has_been_used(name)):
        what = "nothing" if also else "no limit"
        every = [*also, *sorted(known)]
        listed = ", ".join(every[:MOST_LISTED]) + (", …" if len(every) > MOST_LISTED else "")
        raise UnknownLimit(f"{what} is called {name!r}; {_meant(name, every[:MOST_COMPARED])}: {listed}")


def why_none(name: str) -> str:
    """Why there is nothing to show of a limit of this name."""
    try:
        check_known(name)
    except UnknownLimit as error:
        return str(error)
    return f"the limit {name!r} has no row, and nothing runs under it"


def _named_by_flows() -> set[str]:
    return {name for flow in all_flows() for name in flow.limit_names}


def _is_one_of(name: str, known: Iterable[str]) -> bool:
    """Itself, of the same kind, under a pattern, or a pattern of some."""
    if name in known:
        return True
    kind = _kind(name)
    return any(
        (kind and kind == _kind(each))
        or (each.endswith("*") and each != "*" and name.startswith(each[:-1]))
        or (name.endswith("*") and each.startswith(name[:-1]))
        for each in known
    )


def _has_been_used(name: str) -> bool:
    """Whether work has run, or waits, under such a limit."""
    start = name.removesuffix("*") if name.endswith("*") else _kind(name)
    names = Q(name__startswith=start) if start else Q(name=name)
    return RouteLimit.objects.filter(names).exists() or Route.objects.filter(_of_resource(name)).exists()


def _of_resource(name: str) -> Q:
    return Q(resources__startswith=f"{name}=") | Q(resources__contains=f" {name}=")


def _kind(name: str) -> str:
    """`host:` of `host:a`; empty for a resource, a phase and the fleet."""
    kind, colon, _ = name.partition(":")
    return f"{kind}:" if colon and kind != "phase" else ""


def _meant(name: str, known: Iterable[str]) -> str:
    kinds = {kind for kind in map(_kind, known) if kind}
    kind = _kind(name)
    if kind and (close := get_close_matches(kind, kinds, 1)):
        close = [close[0] + name.removeprefix(kind)]
    else:
        close = get_close_matches(name, known, 1)
    return f"did you mean {close[0]!r}? There are" if close else "there are"
