"""Wake-ups: what a change makes possible again, for the decision that follows it.

Whoever holds the scheduler lock unparks routes at once. Others insert wake-ups in the transaction of
their change: the next decision consumes them before it reads routes, so none is lost whoever commits
first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from queuemgr.base import sql
from queuemgr.base.scheduler_lock import SchedulerLock, has_sessions
from queuemgr.base.sql_lists import Listed
from queuemgr.models import Wakeup
from queuemgr.scheduling import parking
from queuemgr.scheduling.candidates import budget_of
from queuemgr.scheduling.claims import names_of, route_keys
from queuemgr.scheduling.parking import NO_ROUTES, Woken

EVERYTHING = "*"
"""Wakes all routes: a limit was edited, a pause ended."""


MARK = "decide again"
"""Left by who found the scheduler lock busy, for its holder. It unparks nothing: what changed has wake-ups of
its own. No limit is called so: names of limits have no blanks."""


class BatchWakeups(NamedTuple):
    """Batches in which a member has ended, and cancelled batches with members left to cancel."""

    ended: frozenset[int]
    cancelling: frozenset[int]


_ENDED, _CANCELLING = "batch ", "cancelling "
"""Prefixes of wake-ups for batches. No limit begins so: names of limits have no blanks."""


def freed_by(phase: str, limit_keys: str, resources: str, *, refunded: bool) -> set[str]:
    """What the end of a lease frees: its own limits, and budgets it left something of."""
    names = names_of(phase, limit_keys) if refunded else ()
    return {*route_keys(limit_keys, resources), *map(budget_of, names)}


def post(
    routes: Iterable[int] = (),
    limits: Iterable[str] = (),
    batches: Iterable[int] = (),
    cancelling: Iterable[int] = (),
) -> None:
    """Insert wake-ups, in the caller's transaction."""
    rows = [Wakeup(route_id=route) for route in routes]
    rows += [Wakeup(limit=name) for name in limits]
    rows += [Wakeup(limit=f"{_ENDED}{batch}") for batch in batches]
    rows += [Wakeup(limit=f"{_CANCELLING}{batch}") for batch in cancelling]
    if rows:
        Wakeup.objects.bulk_create(rows, batch_size=500)


def leave_mark() -> None:
    """Ask whoever holds the scheduler lock to decide again; committed before the lock is tried again."""
    Wakeup.objects.create(limit=MARK)


def has_mark() -> bool:
    """Whether somebody found the scheduler lock busy and no decision has been made since."""
    return has_sessions() and bool(sql.column(_HAS_MARK, [MARK]))


_HAS_MARK = "SELECT 1 FROM queuemgr_wakeup WHERE limit_name = %s LIMIT 1"


class _Wakeup(NamedTuple):
    route_id: int | None
    limit_name: str


_CONSUME = "DELETE FROM queuemgr_wakeup RETURNING route_id, limit_name"


def consume(lock: SchedulerLock, woken: Woken = NO_ROUTES) -> BatchWakeups:
    """Delete all wake-ups and unpark the routes they name, and those woken beside; returns the wake-ups for
    batches."""
    unparked, consumed = list(parking.unparking(woken)), Listed(_CONSUME, [])
    if unparked and has_sessions():  # PostgreSQL does both in one round trip
        last = unparked.pop()
        consumed = Listed(f"WITH unparked AS ({last.text}) {_CONSUME}", last.values)
    for each in unparked:
        sql.run(each.text, each.values)
    rows = sql.rows(_Wakeup, consumed.text, consumed.values)
    routes, names = {row.route_id for row in rows if row.route_id}, {row.limit_name for row in rows}
    ended, cancelling = (_batches(names, prefix) for prefix in (_ENDED, _CANCELLING))
    limits = names - {"", MARK, *ended, *cancelling}
    if EVERYTHING in names:
        parking.unpark_all(lock)
    else:
        parking.unpark(lock, routes, limits)
    return BatchWakeups(frozenset(ended.values()), frozenset(cancelling.values()))


def _batches(names: Collection[str], prefix: str) -> dict[str, int]:
    return {name: int(name.removeprefix(prefix)) for name in names if name.startswith(prefix)}
