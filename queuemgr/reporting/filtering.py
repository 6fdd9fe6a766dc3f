"""Executions by what a person says of them: one filter for lists, bulk actions and the API.

A filter is a plain mapping, as a row keeps it: `{"phase": "prep", "state": "failed"}`. Every key narrows
further. Nothing is counted here; what each key costs stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, Value
from django.db.models.functions import Concat, StrIndex
from django.db.models.lookups import GreaterThan

from queuemgr.base.errors import BadInput
from queuemgr.flows.flow import PRIORITIES, all_phases
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
from queuemgr.reporting.key_search import with_key_from

MOST_IDS = 500
LONGEST = 255
"""Characters of one value of a filter."""

Filters = Mapping[str, Any]
Narrow = Callable[[ExecutionQuerySet, Any], ExecutionQuerySet]


def executions_matching(filters: Filters) -> ExecutionQuerySet:
    """The executions this filter meets, in no order.

    Keys: flow, phase, step, state, status (the operator's word), error_kind, error_fingerprint, key,
    key_prefix, text (in the error message), limit (any limit's key), worker (by name), batch (id or
    name), priority (by name), created_before, created_after (moments, ISO 8601 when text; UTC where no
    zone is given), ids. Raises `BadInput` naming a key or a value nobody knows.
    """
    return narrowed(Execution.objects.all(), filters)


def narrowed(found: ExecutionQuerySet, filters: Filters) -> ExecutionQuerySet:
    """Those of `found` this filter meets; raises `BadInput` as `executions_matching` does."""
    unknown = sorted(set(filters) - set(FILTERS))
    if unknown:
        raise BadInput(f"no filter is called {unknown[0]!r}; there are: {', '.join(FILTERS)}")
    for name, value in filters.items():
        found = FILTERS[name](found, value)
    return found


def statuses() -> Mapping[str, Q]:
    """What each word an operator sees stands for, in the order work meets them."""
    words: dict[str, Q] = {}
    for phase in all_phases().values():
        waits = Q(state=State.WAITING, phase=phase.name)
        runs = Q(state__in=HELD, phase=phase.name)
        words[phase.waiting] = words.get(phase.waiting, Q()) | waits
        words[phase.running] = words.get(phase.running, Q()) | runs
    return words | {str(state): Q(state=state) for state in FINAL}


def _column(name: str) -> Narrow:
    return lambda found, value: found.filter(**{name: _text(name, value)})


def _by_state(found: ExecutionQuerySet, value: Any) -> ExecutionQuerySet:
    return found.filter(state=_one_of("state", value, State.values))


def _by_status(found: ExecutionQuerySet, value: Any) -> ExecutionQuerySet:
    known = statuses()
    return found.filter(known[_one_of("status", value, known)])


def _by_priority(found: ExecutionQuerySet, value: Any) -> ExecutionQuerySet:
    return found.filter(priority=PRIORITIES[_one_of("priority", value, PRIORITIES)])


def _by_error_kind(found: ExecutionQuerySet, value: Any) -> ExecutionQuerySet:
    # SQLite uses the index on errors only for a condition worded as the index words it.
    return found.filter(~Q(error_kind=""), error_kind=_text("error_kind", value))


def _by_error_fingerprint(found: ExecutionQuerySet, value: Any) -> ExecutionQuerySet:
    return found.filter(~Q(error_kind=""), error_fingerprint=_text("error_fingerprint", value))


def _by_key_prefix(found: ExecutionQuerySet, value: Any) -> ExecutionQuerySet:
    return with_key_from(found, _text("key_prefix", value))


def _by_text(found: ExecutionQuerySet, value: Any) -> ExecutionQuerySet:
    """Reads every message there is: for work in the background, or together with other keys."""
    return found.filter(~Q(error_kind=""), error_message__icontains=_text("text", value))


def _by_limit(found: ExecutionQuerySet, value: Any) -> ExecutionQuerySet:
    return found.filter(at_limit(_text("limit", value)) | ended_at_limit(_text("limit", value)))


def at_limit(name: str) -> Q:
    """Those that wait for this limit or hold a place in it: by the routes and leases there are."""
    routes = RouteLimit.objects.filter(name=name).values("route_id")
    held = Lease.objects.filter(listed(name)).values("execution_id")
    return Q(state=State.WAITING, route_id__in=routes) | Q(state__in=HELD, pk__in=held)


def ended_at_limit(name: str) -> Q:
    """Those whose last attempt, the one they ended with, was under this limit: one look at the
    attempts of each ended execution, so narrow it further wherever somebody waits for the answer."""
    return Q(state__in=FINAL) & _last_attempted(listed(name))


def at_worker(name: str) -> Q:
    """Those a worker of this name runs."""
    return Q(state__in=HELD, pk__in=Lease.objects.filter(worker__name=name).values("execution_id"))


def after_worker(name: str) -> Q:
    """Those that stand still and ran last on this worker; costs as `ended_at_limit`."""
    return ~Q(state__in=HELD) & _last_attempted(Q(worker=name))


def _last_attempted(which: Q) -> Q:
    """Was the execution's last attempt such a one? Looked up from the execution."""
    later = Attempt.objects.filter(execution=OuterRef("execution"), pk__gt=OuterRef("pk"))
    last = Attempt.objects.filter(which, ~Exists(later), execution=OuterRef("pk"))
    return Q(Exists(last))


def listed(name: str) -> Q:
    """Is this key among those in the column `limit_keys`, which has a blank between them?"""
    padded = Concat(Value(" "), F("limit_keys"), Value(" "))
    return Q(GreaterThan(StrIndex(padded, Value(f" {name} ")), 0))


def _by_worker(found: ExecutionQuerySet, value: Any) -> ExecutionQuerySet:
    return found.filter(at_worker(_text("worker", value)) | after_worker(_text("worker", value)))


BIGGEST_ID = 2**63 - 1


def _by_batch(found: ExecutionQuerySet, value: Any) -> ExecutionQuerySet:
    named = _text("batch", str(value))
    batch = Batch.objects.filter(name=named).first()
    if batch is None and named.isdecimal() and int(named) <= BIGGEST_ID:
        batch = Batch.objects.filter(pk=int(named)).first()
    if batch is None:
        raise BadInput(f"no batch is called {named[:60]!r}")
    return found.filter(batch=batch)


def _created_before(found: ExecutionQuerySet, value: Any) -> ExecutionQuerySet:
    return found.filter(created_at__lt=moment_of("created_before", value))


def _created_after(found: ExecutionQuerySet, value: Any) -> ExecutionQuerySet:
    return found.filter(created_at__gte=moment_of("created_after", value))


def _by_ids(found: ExecutionQuerySet, value: Any) -> ExecutionQuerySet:
    if not isinstance(value, list | tuple) or not all(type(one) is int for one in value):
        raise BadInput(f"ids is a list of whole numbers, not {str(value)[:60]!r}")
    if len(value) > MOST_IDS:
        raise BadInput(f"ids has {len(value):,} numbers; at most {MOST_IDS} fit")
    return found.filter(pk__in=value)


FILTERS: Mapping[str, Narrow] = {
    **{name: _column(name) for name in ("flow", "phase", "step", "key")},
    "state": _by_state,
    "status": _by_status,
    "error_kind": _by_error_kind,
    "error_fingerprint": _by_error_fingerprint,
    "key_prefix": _by_key_prefix,
    "text": _by_text,
    "limit": _by_limit,
    "worker": _by_worker,
    "batch": _by_batch,
    "priority": _by_priority,
    "created_before": _created_before,
    "created_after": _created_after,
    "ids": _by_ids,
}


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value or len(value) > LONGEST or "\x00" in value:
        raise BadInput(f"{name} is a text of 1 to {LONGEST} characters, not {str(value)[:60]!r}")
    return value


def _one_of(name: str, value: Any, known: Iterable[str]) -> str:
    if not isinstance(value, str) or value not in known:
        raise BadInput(f"{name} {str(value)[:60]!r} is not one of {', '.join(known)}")
    return value


def moment_of(name: str, value: Any) -> datetime:
    """The moment a filter of this name means; raises `BadInput`."""
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        raise BadInput(
            f"{name} {str(value)[:60]!r} is no time; write it as 2026-11-28 06:00"
        ) from None
    if not 1970 <= moment.year < 9000:
        raise BadInput(f"{name} {str(value)[:60]!r}: give a time from 1970 on and before 9000")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
