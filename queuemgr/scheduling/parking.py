"""Which routes need not be looked at again until something changes: parked where a limit stops them.

A route is parked on one limit of its own that stops it; while that one does, the others do not
matter. What stops a whole queue (fleet, phase, workers) parks nothing: the queue is not looked at.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Any, NamedTuple

from queuemgr.base import sql
from queuemgr.base.scheduler_lock import SchedulerLock
from queuemgr.scheduling.admission import BEYOND_WINDOW, FLEET, Decision, Reason, WaitingRoute
from queuemgr.scheduling.snapshot import RouteScan
from queuemgr.scheduling.wakeups import budget_of

NOTHING_WAITS, NOT_DUE = "nothing waits", "run_after"


class ParkedOn(NamedTuple):
    """What a route is parked on, and until when at most."""

    on: str
    until: datetime | None = None


NOWHERE = ParkedOn("")


def parking_spot_for(route: WaitingRoute, reasons: tuple[Reason, ...]) -> ParkedOn | None:
    """Where to park a route that these reasons stopped; None when it must be looked at again."""
    spots = (_parking_spot(route, reason) for reason in reasons)
    return next((spot for spot in spots if spot), None)


def _parking_spot(route: WaitingRoute, reason: Reason) -> ParkedOn | None:
    if reason.kind == "run_after":
        return ParkedOn(NOT_DUE, reason.until)
    if reason.kind == "retries":
        return ParkedOn("retries", reason.until)
    if reason.kind == "budget":
        return ParkedOn(budget_of(reason.limit), reason.until)
    if reason.kind in ("reserved", "workers") or _stops_all(route, reason.limit):
        return None
    if reason.kind == "capacity" and _is_heavy(route):
        return None  # Capacity may be reserved for it, which only a decision that reads it can do.
    return ParkedOn(reason.limit, reason.until)


def _stops_all(route: WaitingRoute, limit: str) -> bool:
    """Is this the fleet, the phase or the queue of the route, and so stops the whole queue?"""
    return limit in (FLEET, f"phase:{route.phase}", route.queue)


def _is_heavy(route: WaitingRoute) -> bool:
    return any(weight > 1 for _, weight in route.claims)


def has_candidates(seen: RouteScan, decision: Decision) -> bool:
    """Could routes not looked at fill the room this decision left?"""
    full = {
        route.queue
        for route in seen.snapshot.routes
        for reason in decision.reasons.get(route.id, ())
        if reason.kind == "workers" or (_stops_all(route, reason.limit) and reason.kind != "budget")
        if route.weight == 1
    }
    return bool(seen.cut_off - full)


def save_parking(lock: SchedulerLock, seen: RouteScan, decision: Decision) -> None:
    """Write what was learnt of the routes looked at: served now, parked where, how old their heads.

    Only what changed; in a fleet at rest in its course that is the turn of the route served, and with
    one route alone not even that.
    """
    started = frozenset(decision.starts)
    looked_at = seen.snapshot.routes
    rows = [row for route in looked_at if (row := _row(seen, decision, route, started))]
    rows += [_Row(pk, None, None, ParkedOn(NOTHING_WAITS)) for pk in seen.empty]
    alike: dict[tuple[str, ...], list[list[Any]]] = defaultdict(list)
    for row in rows:
        changes = _changes(row)
        alike[tuple(changes)].append([*changes.values(), row.id])
    for columns, values in alike.items():
        assignments = ", ".join(f"{column} = %s" for column in columns)
        sql.run_each(f"UPDATE queuemgr_route SET {assignments} WHERE id = %s", values)


class _Row(NamedTuple):
    id: int
    served_at: datetime | None
    head_at: datetime | None
    place: ParkedOn | None


def _row(
    seen: RouteScan, decision: Decision, route: WaitingRoute, started: frozenset[int]
) -> _Row | None:
    alone = len(seen.snapshot.routes) == 1
    served = seen.snapshot.now if route.id in started and not alone else None
    reasons = decision.reasons.get(route.id, ())
    place = parking_spot_for(route, reasons) if reasons else None
    if place is None and route.id in seen.in_time:
        place = NOWHERE  # It takes its turn again, or it would stand before all whose time comes.
    before = seen.heads.get(route.id)
    head = route.head_at if _is_news(seen, before, route.head_at) else None
    return _Row(route.id, served, head, place) if served or place or head else None


def _is_news(seen: RouteScan, before: datetime | None, head: datetime) -> bool:
    """Heads are written where ageing would look at the route too early, or would not find it."""
    starvation = seen.snapshot.ordering.starvation
    if not starvation or head >= BEYOND_WINDOW:
        return False
    return before is None or (before < seen.snapshot.now - starvation <= head)


def _changes(row: _Row) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if row.served_at:
        changes["served_at"] = row.served_at
    if row.head_at:
        changes["head_at"] = row.head_at
    if row.place:
        changes |= {"parked_on": row.place.on, "parked_until": row.place.until}
    return changes
