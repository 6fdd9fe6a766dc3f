"""Storing what a decision found about the routes it read: served, parked, or empty."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Any

from queuemgr.base import sql
from queuemgr.base.scheduler_lock import SchedulerLock
from queuemgr.scheduling.admission import Decision, WaitingRoute
from queuemgr.scheduling.candidates import NOTHING_WAITS, ParkedOn, RouteScan, parking_spot_for

UNPARKED = ParkedOn("")


def save_parking(lock: SchedulerLock, scan: RouteScan, decision: Decision) -> None:
    """Write what changed of the routes read: when they were served, where they are parked, and how old
    their heads are. In a steady state that is `served_at` alone, and nothing with a single route."""
    started = frozenset(decision.starts)
    changes = {r.id: _changes(scan, decision, r, started) for r in scan.snapshot.routes}
    changes |= {pk: _parked(ParkedOn(NOTHING_WAITS)) for pk in scan.empty}
    alike: dict[tuple[str, ...], list[list[Any]]] = defaultdict(list)
    for pk, changed in changes.items():
        if changed:
            alike[tuple(changed)].append([*changed.values(), pk])
    for columns, values in alike.items():
        assignments = ", ".join(f"{column} = %s" for column in columns)
        sql.run_each(f"UPDATE queuemgr_route SET {assignments} WHERE id = %s", values)


def _changes(
    scan: RouteScan, decision: Decision, route: WaitingRoute, started: frozenset[int]
) -> dict[str, Any]:
    """The columns to write of one route."""
    changes: dict[str, Any] = {}
    if route.id in started and len(scan.snapshot.routes) > 1:
        changes["served_at"] = scan.snapshot.now
    if _must_store_head(scan, scan.heads.get(route.id), route.head_at):
        changes["head_at"] = route.head_at
    if spot := parking_spot_for(route, decision.reasons.get(route.id, ())):
        changes |= _parked(spot)
    elif route.id in scan.timer_due:
        changes |= _parked(UNPARKED)  # Else its old timer would put it ahead of later ones for ever.
    return changes


def _parked(spot: ParkedOn) -> dict[str, Any]:
    return {"parked_on": spot.on, "parked_until": spot.until}


def _must_store_head(scan: RouteScan, stored: datetime | None, head: datetime | None) -> bool:
    """Heads are stored where aging would read the route too early, or would not find it."""
    starvation = scan.snapshot.ordering.starvation
    if not starvation or head is None:
        return False
    return stored is None or (stored < scan.snapshot.now - starvation <= head)
