"""Parking routes that cannot start anything, as a decision found, and unparking them when that may change."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import NamedTuple

from queuemgr.base import sql, sql_lists
from queuemgr.base.scheduler_lock import SchedulerLock
from queuemgr.models import Route
from queuemgr.scheduling.admission import Decision
from queuemgr.scheduling.candidates import NOT_DUE, NOTHING_WAITS, ParkedOn, RouteScan, parking_spot_for
from queuemgr.scheduling.decision_input import Snapshot, WaitingRoute

UNPARKED = ParkedOn("")


def save_parking(lock: SchedulerLock, scan: RouteScan, decision: Decision) -> None:
    """Write changed `served_at`, parking and heads of the routes read, in one statement for a thousand.

    In a steady state that is `served_at` alone, and nothing with a single route.
    """
    for statement in saving(scan, decision):
        sql.run(*statement)


def saving(scan: RouteScan, decision: Decision) -> list[sql_lists.Listed]:
    """The statements of `save_parking`."""
    started = Counter(decision.starts)
    rows = [row for route in scan.routes if (row := _changed(scan, decision, route, started[route.id]))]
    return [
        sql_lists.Listed(_SAVE.format(new=new.text), new.values) for new in sql_lists.tables(_KINDS, rows)
    ]


_KINDS = ("bigint", "timestamptz", "timestamptz", "text", "timestamptz")

_SAVE = """
    UPDATE queuemgr_route SET served_at = new.column2, head_at = new.column3, parked_on = new.column4,
           parked_until = new.column5
      FROM ({new}) AS new WHERE id = new.column1
"""


def _changed(
    scan: RouteScan, decision: Decision, route: WaitingRoute, started: int
) -> tuple[int, datetime, datetime | None, str, datetime | None] | None:
    """The columns of its row, all of which its decision knows, if they change: it was not parked when it was
    read, or its timer is due."""
    snapshot = scan.snapshot
    served_at, head_at, spot = route.served_at, route.stored_head, ParkedOn(NOTHING_WAITS)
    if not route.is_empty:
        if started and (len(snapshot.routes) > 1 or scan.cut_off):
            served_at = snapshot.now
        if _must_store_head(snapshot, route):
            head_at = route.head_at
        spot = _spot(route, decision, started) or UNPARKED
    if (
        spot == UNPARKED
        and not route.timer_due
        and (served_at, head_at) == (route.served_at, route.stored_head)
    ):
        return None
    return route.id, served_at, head_at, spot.on, spot.until


def _spot(route: WaitingRoute, decision: Decision, started: int) -> ParkedOn | None:
    """Where it is parked from now on, since something stops it, or all of it has started; None: nowhere. Who
    is not parked any more loses its old timer, which would put it ahead of later ones indefinitely."""
    if spot := parking_spot_for(route, decision.reasons.get(route.id, ())):
        return spot
    if started and started == route.due < route.counted_to:
        return ParkedOn(NOT_DUE, route.next_at) if route.next_at else ParkedOn(NOTHING_WAITS)
    return None


def _must_store_head(snapshot: Snapshot, route: WaitingRoute) -> bool:
    """Store a head if its stored value would make aging read it early or miss it."""
    starvation, stored = snapshot.ordering.starvation, route.stored_head
    if not starvation or route.head_at is None:
        return False
    return stored is None or (stored < snapshot.now - starvation <= route.head_at)


_NEXT_OPENING = "SELECT MIN(parked_until) FROM queuemgr_route WHERE parked_until > %s"


class _Opening(NamedTuple):
    at: datetime | None


def next_opening(after: datetime) -> datetime | None:
    """The earliest time after this at which the parking of a route ends by itself."""
    return sql.rows(_Opening, _NEXT_OPENING, [after])[0].at


class Woken(NamedTuple):
    """Routes that the next decision is to read, and limits whose parked routes it is to read."""

    routes: Collection[int] = ()
    limits: Collection[str] = ()


NO_ROUTES = Woken()


def unpark(lock: SchedulerLock, routes: Collection[int] = (), limits: Collection[str] = ()) -> None:
    """Have these routes, and those parked on these limits, read by the next decision."""
    for statement in unparking(Woken(routes, limits)):
        sql.run(statement.text, statement.values)


def unparking(woken: Woken) -> Iterator[sql_lists.Listed]:
    """The statements that unpark these, and their parameters."""
    names, ids = list(woken.limits), list(woken.routes)
    for start in range(0, max(len(names), len(ids)), _AT_A_TIME):
        tests = []
        if some := names[start : start + _AT_A_TIME]:
            tests.append(("parked_on", sql_lists.among("text", some)))
        if few := ids[start : start + _AT_A_TIME]:
            tests.append(("id", sql_lists.among("bigint", few)))
        either = " OR ".join(f"{column} {listed.text}" for column, listed in tests)
        values = [value for _, listed in tests for value in listed.values]
        yield sql_lists.Listed(f"{_UNPARK} WHERE parked_on <> '' AND ({either})", values)


def fall_due(lock: SchedulerLock, routes: Collection[int], at: datetime) -> None:
    """Have these routes read again whose work falls due earlier than it did.

    A route's `head_at` is never later than its head falls due, or aging would miss it.
    """
    Route.objects.filter(pk__in=routes, head_at__gt=at).update(head_at=at)
    unpark(lock, routes)


def unpark_all(lock: SchedulerLock) -> None:
    sql.run(f"{_UNPARK} WHERE parked_on <> ''")


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
