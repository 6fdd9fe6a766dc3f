"""Wake-ups: what a change makes possible again, for the decision that follows it.

Whoever holds the scheduler lock unparks routes at once. Others insert wake-ups in the transaction of
their change: the next decision consumes them before it reads routes, so none is lost whoever commits
first.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable
from typing import NamedTuple

from queuemgr.base import sql
from queuemgr.base.scheduler_lock import SchedulerLock
from queuemgr.models import Route, Wakeup
from queuemgr.scheduling.candidates import budget_of
from queuemgr.scheduling.claims import names_of, route_keys

EVERYTHING = "*"
"""Wakes all routes: a limit was edited, a pause ended."""


class BatchWakeups(NamedTuple):
    """Batches in which a member has ended, and cancelled batches with members left to cancel."""

    ended: frozenset[int]
    cancelling: frozenset[int]


_ENDED, _CANCELLING = "batch ", "cancelling "
"""Prefixes of wake-ups for batches. No limit begins so: names of limits have no blanks."""


def freed_by(phase: str, limit_keys: str, tokens: str, *, refunded: bool) -> set[str]:
    """What the end of a lease frees: its own limits, and budgets it left something of."""
    names = names_of(phase, limit_keys) if refunded else ()
    return {*route_keys(limit_keys, tokens), *map(budget_of, names)}


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


def consume(lock: SchedulerLock) -> BatchWakeups:
    """Delete all wake-ups and unpark the routes they name; returns those for batches."""
    rows = sql.rows("DELETE FROM queuemgr_wakeup RETURNING route_id, limit_name")
    routes, names = {route for route, _ in rows if route}, {name for _, name in rows if name}
    ended, cancelling = (_batches(names, prefix) for prefix in (_ENDED, _CANCELLING))
    unpark(lock, routes, names - {*ended, *cancelling})
    return BatchWakeups(frozenset(ended.values()), frozenset(cancelling.values()))


def _batches(names: Collection[str], prefix: str) -> dict[str, int]:
    return {name: int(name.removeprefix(prefix)) for name in names if name.startswith(prefix)}


def unpark(lock: SchedulerLock, routes: Collection[int] = (), limits: Collection[str] = ()) -> None:
    """Have these routes, and those parked on these limits, read by the next decision."""
    if EVERYTHING in limits:
        sql.run(f"{_UNPARK} WHERE parked_on <> ''")
        return
    names, ids = list(limits), list(routes)
    for start in range(0, max(len(names), len(ids)), _AT_A_TIME):
        some, few = names[start : start + _AT_A_TIME], ids[start : start + _AT_A_TIME]
        tests = [f"parked_on IN ({sql.marks(len(some))})"] if some else []
        tests += [f"id IN ({sql.marks(len(few))})"] if few else []
        sql.run(f"{_UNPARK} WHERE parked_on <> '' AND ({' OR '.join(tests)})", [*some, *few])


def unpark_sample(lock: SchedulerLock) -> None:
    """Unpark a random sample every tick, so that rows changed out of band (by hand, by a restored
    backup) are eventually reconsidered. With few parked routes the sample is all of them."""
    parked, first = Route.objects.exclude(parked_on="").order_by("pk"), 0
    if parked[: _AT_A_TIME + 1].count() > _AT_A_TIME:
        first = random.SystemRandom().randrange(Route.objects.latest("pk").pk + 1)
    sample = list(parked.filter(pk__gte=first).values_list("pk", flat=True)[:_AT_A_TIME])
    unpark(lock, sample)


_AT_A_TIME = 500
_UNPARK = "UPDATE queuemgr_route SET parked_on = '', parked_until = NULL"
