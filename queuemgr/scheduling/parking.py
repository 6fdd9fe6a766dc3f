"""Storing what a decision found about the routes it read: served, parked, or empty."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Any, NamedTuple

from queuemgr.base import sql
from queuemgr.base.scheduler_lock import SchedulerLock
from queuemgr.scheduling.admission import BEYOND_WINDOW, Decision, WaitingRoute
from queuemgr.scheduling.candidates import NOTHING_WAITS, ParkedOn, RouteScan, parking_spot_for

NOWHERE = ParkedOn("")


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
    place = parking_spot_for(route, reasons)
    if place is None and route.id in seen.timer_due:
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
