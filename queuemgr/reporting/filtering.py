"""Filters of executions: one registry for lists, bulk actions, the commands and the API.

A filter is a plain mapping, as a row stores it: `{"phase": "print", "state": "failed"}`. Every name narrows
further. Filters that read every row have a bounded variant for pages, which reads the newest rows only. What
forms and the API say about each name, and the values they offer, is stated here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Exists, F, Max, Min, OuterRef, Q, Value
from django.db.models.functions import Concat, StrIndex
from django.db.models.lookups import GreaterThan

from queuemgr.base import sql
from queuemgr.base.errors import BadInput
from queuemgr.base.loose_index_scan import loose_index_scan
from queuemgr.base.safe_text import excerpt
from queuemgr.flows.flow import PRIORITIES, all_flows, all_phases
from queuemgr.models import (
    FINAL,
    HELD,
    Attempt,
    Batch,
    Execution,
    ExecutionQuerySet,
    Lease,
    RouteLimit,
    State,
)

MAX_IDS = 500
MAX_CHARACTERS = 255
"""Of one value of a filter."""

MAX_ATTEMPTS_READ = 20_000
"""How many of the newest attempts a bounded filter reads for ended executions of a limit or worker."""

MAX_FAILURES_READ = 5_000
"""How many messages of the newest failures of each kind a bounded filter searches."""

MAX_FOUND = 1_000
MAX_ROUTES = 5_000

Filters = Mapping[str, Any]


@dataclass(frozen=True)
class Filter:
    """How one value narrows executions, and how it is asked for.

    `parse(name, value)` raises `BadInput` for an invalid value. `bounded` gets the parsed value and all
    values of the filter; pages use it where `matches` would read every row, and `bounded_help` says what it
    reads. `choices`: the values to offer, where they are few.
    """

    label: str
    parse: Callable[[str, Any], Any]
    matches: Callable[[Any], Q]
    bounded: Callable[[Any, Filters], Q] | None = None
    _: KW_ONLY
    help: str = ""
    bounded_help: str = ""
    choices: Callable[[], Iterable[str]] | None = None


def executions_matching(
    filters: Filters, *, among: ExecutionQuerySet | None = None, bounded: bool = False
) -> ExecutionQuerySet:
    """The executions (of `among`) that match every filter, in no order; `bounded`: in bounded time, which
    may leave old ones out.

    The names are those of `FILTERS`. Raises `BadInput` for an unknown one or an invalid value.
    """
    if unknown := sorted(set(filters) - set(FILTERS)):
        raise BadInput(f"no filter is called {unknown[0]!r}; there are: {', '.join(FILTERS)}")
    found = Execution.objects.all() if among is None else among
    for name, given in filters.items():
        chosen, value = FILTERS[name], FILTERS[name].parse(name, given)
        narrower = bounded and chosen.bounded
        found = found.filter(narrower(value, filters) if narrower else chosen.matches(value))
    return found


def with_key(key: str) -> ExecutionQuerySet:
    """The execution of this key in each flow that has one."""
    return Execution.objects.filter(flow__in=_flows(), key=key)


def _flows() -> list[str]:
    """For the unique index on flow and key, which has the flow first."""
    return loose_index_scan(Execution, "flow")["flow"]


def _flow_names() -> list[str]:
    """Declared flows, and those of the past that still have executions."""
    return sorted({*_flows(), *(flow.name for flow in all_flows())})


def _error_kinds() -> list[str]:
    return loose_index_scan(Execution, "error_kind")["error_kind"]


def statuses() -> Mapping[str, Q]:
    """The executions of each operator's status, in the order work passes through them."""
    words: dict[str, Q] = {}
    for phase in all_phases().values():
        waits = Q(state=State.WAITING, phase=phase.name)
        runs = Q(state__in=HELD, phase=phase.name)
        words[phase.waiting] = words.get(phase.waiting, Q()) | waits
        words[phase.running] = words.get(phase.running, Q()) | runs
    return words | {str(state): Q(state=state) for state in FINAL}


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value or len(value) > MAX_CHARACTERS or "\x00" in value:
        raise BadInput(f"{name} is a text of 1 to {MAX_CHARACTERS} characters, not {excerpt(value)}")
    return value


def _one_of(known: Callable[[], Iterable[str]]) -> Callable[[str, Any], str]:
    def parse_word(name: str, value: Any) -> str:
        words = list(known())
        if not isinstance(value, str) or value not in words:
            raise BadInput(f"{name} {excerpt(value)} is not one of {', '.join(words)}")
        return value

    return parse_word


def parse_time(name: str, value: Any) -> datetime:
    """A time given as such or as ISO 8601, in UTC where it has no zone; raises `BadInput`."""
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        raise BadInput(f"{name} {excerpt(value)} is no time; write it as 2026-11-28 06:00") from None
    if not 1970 <= moment.year < 9000:
        raise BadInput(f"{name} {excerpt(value)}: give a time from 1970 on and before 9000")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _ids(name: str, value: Any) -> list[int]:
    if not isinstance(value, list | tuple) or not all(type(one) is int for one in value):
        raise BadInput(f"{name} is a list of whole numbers, not {excerpt(value)}")
    if len(value) > MAX_IDS:
        raise BadInput(f"{name} has {len(value):,} numbers; at most {MAX_IDS} fit")
    return list(value)


def _batch(name: str, value: Any) -> Batch:
    text = _text(name, str(value))
    batch = Batch.objects.filter(name=text).first()
    if batch is None and text.isdecimal() and int(text) < 2**63:
        batch = Batch.objects.filter(pk=int(text)).first()
    if batch is None:
        raise BadInput(f"no batch is called {text[:60]!r}")
    return batch


def _error(**conditions: Any) -> Q:
    """SQLite uses the partial index on errors only for a condition worded as the index words it."""
    return Q(~Q(error_kind=""), **conditions)


def _containing(text: str, filters: Filters) -> Q:
    """The newest failures whose message contains the text."""
    every_kind = "error_kind" not in filters
    kinds = _error_kinds() if every_kind else [filters["error_kind"]]
    found: list[int] = []
    for kind in kinds:
        failures = Execution.objects.filter(_error(error_kind=kind)).order_by("-pk")
        newest = failures.values_list("pk", "error_message")[:MAX_FAILURES_READ]
        wanted = text.casefold()
        found += [pk for pk, message in newest.iterator() if wanted in message.casefold()]
    return Q(pk__in=sorted(found, reverse=True)[:MAX_FOUND])


def _under_limit(name: str) -> Q:
    """Those that wait for this limit or hold capacity of it, by routes and leases, and those whose last
    attempt, the one they ended with, was under it."""
    routes = RouteLimit.objects.filter(name=name).values("route_id")
    held = Lease.objects.filter(_has_key(name)).values("execution_id")
    waiting = Q(state=State.WAITING, route_id__in=routes) | Q(state__in=HELD, pk__in=held)
    return waiting | Q(state__in=FINAL) & _last_attempt(_has_key(name))


def _lately_under_limit(name: str, filters: Filters) -> Q:
    routes = RouteLimit.objects.filter(name=name).values_list("route_id", flat=True)
    waiting = Q(state=State.WAITING, route_id__in=list(routes[:MAX_ROUTES]))
    ended = Q(pk__in=_lately_attempted(_has_key(name)), state__in=FINAL)
    return waiting | _first_held(_has_key(name)) | ended


def _on_worker(name: str) -> Q:
    """Those this worker runs, and those not held whose last attempt ran there."""
    held = Lease.objects.filter(worker__name=name).values("execution_id")
    return Q(state__in=HELD, pk__in=held) | ~Q(state__in=HELD) & _last_attempt(Q(worker=name))


def _lately_on_worker(name: str, filters: Filters) -> Q:
    ran = Q(pk__in=_lately_attempted(Q(worker=name))) & ~Q(state__in=HELD)
    return ran | _first_held(Q(worker__name=name))


def _has_key(name: str) -> Q:
    """Is this key among those in the column `limit_keys`, which are separated by blanks?"""
    padded = Concat(Value(" "), F("limit_keys"), Value(" "))
    return Q(GreaterThan(StrIndex(padded, Value(f" {name} ")), 0))


def _first_held(condition: Q) -> Q:
    held = Lease.objects.filter(condition).values_list("execution_id", flat=True)
    return Q(pk__in=list(held[:MAX_FOUND]))


def _last_attempt(condition: Q) -> Q:
    """Does the execution's last attempt match? Reads the attempts of each execution."""
    later = Attempt.objects.filter(execution=OuterRef("execution"), pk__gt=OuterRef("pk"))
    last = Attempt.objects.filter(condition, ~Exists(later), execution=OuterRef("pk"))
    return Q(Exists(last))


def _lately_attempted(condition: Q) -> list[int]:
    """Executions whose last attempt matches and is among the newest attempts."""
    newest = Attempt.objects.order_by("-pk").values_list("pk", flat=True)
    floor = newest[MAX_ATTEMPTS_READ : MAX_ATTEMPTS_READ + 1].first() or 0
    alike = Attempt.objects.filter(condition, pk__gt=floor).order_by("-pk")
    found = dict(reversed(alike.values_list("execution_id", "pk")[: MAX_FOUND * 2]))
    attempts = Attempt.objects.filter(execution__in=list(found)).order_by("pk")
    last = dict(attempts.values_list("execution_id", "pk"))
    return [execution for execution, pk in found.items() if last[execution] == pk][:MAX_FOUND]


HOUR = timedelta(hours=1)
"""How far clocks and long transactions may put creation times out of the order of ids."""

ID_PRECISION = 10_000


def _ids_around(moment: datetime) -> tuple[int, int]:
    """Two ids within `ID_PRECISION` of each other between which this time lies: creation times have no
    index, and grow with ids."""
    ends = Execution.objects.aggregate(low=Min("pk"), high=Max("pk"))
    low, high = ends["low"] or 0, ends["high"] or 0
    while high - low > ID_PRECISION:
        middle = (low + high) // 2
        later = Execution.objects.filter(pk__gte=middle).order_by("pk")
        if later.values_list("created_at", flat=True)[0] < moment:
            low = middle
        else:
            high = middle
    return low, high


def _choice(label: str, known: Callable[[], Iterable[str]], matches: Callable[[Any], Q]) -> Filter:
    """A filter that takes one of these values only."""
    return Filter(label, _one_of(known), matches, choices=known)


_AS_TIME = "Format: 2026-11-28 06:00, UTC."
_AMONG_THE_LAST = f"Ended executions: among the last {MAX_ATTEMPTS_READ:,} attempts."

FILTERS: Mapping[str, Filter] = {
    "flow": Filter("Flow", _text, lambda flow: Q(flow=flow), choices=_flow_names),
    "phase": Filter("Phase", _text, lambda phase: Q(phase=phase), choices=all_phases),
    "step": Filter("Step", _text, lambda step: Q(step=step)),
    "key": Filter("Key", _text, lambda key: Q(key=key)),
    "state": _choice("State", lambda: State.values, lambda state: Q(state=state)),
    "status": _choice("Status", statuses, lambda status: statuses()[status]),
    "error_kind": Filter("Error kind", _text, lambda kind: _error(error_kind=kind), choices=_error_kinds),
    "error_fingerprint": Filter(
        "Error fingerprint", _text, lambda value: _error(error_fingerprint=value)
    ),
    "key_prefix": Filter("Key prefix", _text, lambda p: Q(sql.starts_with("key", p), flow__in=_flows())),
    "text": Filter(
        "Words in its error", _text, lambda text: _error(error_message__icontains=text), _containing,
        bounded_help=f"Searches the newest {MAX_FAILURES_READ:,} of each kind, {MAX_FOUND:,} at most.",
    ),
    "limit": Filter(
        "Host, tenant or other limit", _text, _under_limit, _lately_under_limit,
        help="As host:api.example.org:443, tenant:acme.", bounded_help=_AMONG_THE_LAST,
    ),
    "worker": Filter(
        "Worker", _text, _on_worker, _lately_on_worker,
        help="Its full name.", bounded_help=_AMONG_THE_LAST,
    ),
    "batch": Filter("Batch", _batch, lambda batch: Q(batch=batch), help="Its name or number."),
    "priority": _choice(
        "Priority", lambda: PRIORITIES, lambda priority: Q(priority=PRIORITIES[priority])
    ),
    "created_before": Filter(
        "Created before", parse_time, lambda at: Q(created_at__lt=at),
        lambda at, _: Q(created_at__lt=at, pk__lte=_ids_around(at + HOUR)[1]),
        help=_AS_TIME,
    ),
    "created_after": Filter(
        "Created after", parse_time, lambda at: Q(created_at__gte=at),
        lambda at, _: Q(created_at__gte=at, pk__gte=_ids_around(at - HOUR)[0]),
        help=_AS_TIME,
    ),
    "ids": Filter("Ids", _ids, lambda ids: Q(pk__in=ids), help="Comma-separated numbers."),
}  # fmt: skip
