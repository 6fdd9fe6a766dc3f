"""Storing what a decision found about the routes it read: served, parked, or empty."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from queuemgr.base import sql
from queuemgr.base.scheduler_lock import SchedulerLock
from queuemgr.scheduling.admission import Decision, Snapshot, WaitingRoute
from queuemgr.scheduling.candidates import NOTHING_WAITS, ParkedOn, RouteScan, parking_spot_for

UNPARKED = ParkedOn("")


def save_parking(lock: SchedulerLock, scan: RouteScan, decision: Decision) -> None:
    """Write what changed of the routes read: when they were served, where they are parked, and how old
    their heads are. In a steady state that is `served_at` alone, and nothing with a single route."""
    started = frozenset(decision.starts)
    alike: dict[tuple[str, ...], list[list[Any]]] = defaultdict(list)
    for route in scan.routes:
        if changed := _changes(scan.snapshot, decision, route, started):
            alike[tuple(changed)].append([*changed.values(), route.id])
    for columns, values in alike.items():
        assignments = ", ".join(f"{column} = %s" for column in columns)
        sql.run_each(f"UPDATE queuemgr_route SET {assignments} WHERE id = %s", values)


def _changes(
    seen: Snapshot, decision: Decision, route: WaitingRoute, started: frozenset[int]
) -> dict[str, Any]:
    if route.is_empty:
        return _parked(ParkedOn(NOTHING_WAITS))
    changes: dict[str, Any] = {}
    if route.id in started and len(seen.routes) > 1:
        changes["served_at"] = seen.now
    if _must_store_head(seen, route):
        changes["head_at"] = route.head_at
    if spot := parking_spot_for(route, decision.reasons.get(route.id, ())):
        changes |= _parked(spot)
    elif route.timer_due:
        changes |= _parked(UNPARKED)  # Else its old timer would put it ahead of later ones for ever.
    return changes


def _parked(spot: ParkedOn) -> dict[str, Any]:
    return {"parked_on": spot.on, "parked_until": spot.until}


def _must_store_head(seen: Snapshot, route: WaitingRoute) -> bool:
    """Heads are stored where aging would read the route too early, or would not find it."""
    starvation, stored = seen.ordering.starvation, route.stored_head
    if not starvation or route.head_at is None:
        return False
    return stored is None or (stored < seen.now - starvation <= route.head_at)
