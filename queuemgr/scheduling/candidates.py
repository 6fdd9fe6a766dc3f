"""Which routes a decision reads, and where a stopped route is parked until something changes. Pure.

A decision reads only one route more than there are idle slots, and none of a queue that is stopped as a
whole. A route that one of its own limits stops is parked on that limit and not read again until the limit
changes. What stops a whole queue (fleet, phase, workers) parks nothing: that queue is not read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Self

from queuemgr.scheduling.admission import Decision, admit, open_queues
from queuemgr.scheduling.capacity import either, is_either, takes_async
from queuemgr.scheduling.claims import FLEET
from queuemgr.scheduling.decision_input import Reason, Snapshot, WaitingRoute, opens_at

Queues = Mapping[str, tuple[str, int]]
"""Phase and priority by the name of the queue."""

TIMER_DUE = "timer due"
"""Marker in `RouteScan.cut_off`: more routes with an expired parking timer exist than were read."""

LOOKAHEAD_FACTOR = 8
"""How many times as many routes are read when those before left slots idle."""

AMOUNTS = ("budget", "allowance")
"""Reasons that stop a route for what it uses: of the same queue another one, which uses less or none, may
start, even where the limit is that of all."""

NOTHING_WAITS, NOT_DUE = "nothing waits", "run_after"


@dataclass(frozen=True)
class RouteScan:
    """The routes one decision reads; `snapshot` holds those with waiting work.

    `cut_off` are the queues that may have more routes than were read, `unblocks_at` is when the first
    queue that is stopped as a whole may start work again without a change. With `by_kind`, work of
    asynchronous steps was read apart, and `cut_off` names what it may take.
    """

    snapshot: Snapshot
    routes: Collection[WaitingRoute]
    cut_off: frozenset[str]
    unblocks_at: datetime | None
    by_kind: bool = False

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        routes: Collection[WaitingRoute],
        at_most: int | Mapping[bool, int],
        stopped: Mapping[str, tuple[Reason, ...]],
    ) -> Self:
        """At most so many routes were read of each queue, and with expired timers; a mapping: of each kind
        apart."""
        by_kind = isinstance(at_most, Mapping)
        most = at_most if isinstance(at_most, Mapping) else {False: at_most}
        counts = Counter[tuple[str, bool, bool]]()
        for route in routes:
            kind = route.is_async and by_kind
            counts[route.slot if by_kind else route.queue, route.resumed, kind] += 1
            counts[either(TIMER_DUE) if kind else TIMER_DUE, True, kind] += route.timer_due
        cut_off = frozenset(name for (name, _, kind), count in counts.items() if count >= most[kind])
        times = map(opens_at, stopped.values())
        unblocks_at = min((moment for moment in times if moment), default=None)
        return cls(snapshot, routes, cut_off, unblocks_at, by_kind)

    def next_wakeup(self, decision: Decision) -> datetime | None:
        """When the next decision could differ by the passage of time alone."""
        times = [moment for moment in (self.unblocks_at, decision.wake_at) if moment]
        return min(times, default=None)


class Decided(NamedTuple):
    scan: RouteScan
    decision: Decision


def decide(read_routes: Callable[[int], RouteScan], free_slots: int) -> Decided:
    """Decide on one route more than there are free slots, which shows whether one has turns to take with
    others; on many more only while slots would stay idle, or be taken before their time."""
    at_most = free_slots + 1
    while True:
        scan = read_routes(at_most)
        decision = admit(scan.snapshot)
        on_time = len(decision.starts) - decision.early
        if on_time >= free_slots or not has_candidates(scan, decision):
            return Decided(scan, decision)
        at_most *= LOOKAHEAD_FACTOR


def stopped_queues(fleet: Snapshot, queues: Queues) -> dict[str, tuple[Reason, ...]]:
    """Reasons that block whole queues; queues with only parked routes are tested only if all others are
    blocked, for a parking timer may have expired on any."""
    parked = fleet.fully_parked
    lively = [at for q, at in queues.items() if (q, True) not in parked or (q, False) not in parked]
    stopped = open_queues(fleet, lively)
    return open_queues(fleet, queues.values()) if all(stopped.values()) else stopped


def has_candidates(scan: RouteScan, decision: Decision) -> bool:
    """Could routes that were not read use the slots left idle?"""
    full = {
        route.slot if scan.by_kind else route.queue
        for route in scan.snapshot.routes
        for reason in decision.reasons.get(route.id, ())
        if reason.kind == "workers" or (_stops_all(route, reason.limit) and reason.kind not in AMOUNTS)
        if route.weight == 1
    }
    unread = scan.cut_off - full
    if not scan.by_kind:
        return bool(unread)
    idle = decision.capacity.free_by_group
    for_others = any(not takes_async(group) for group in idle)
    for_async = any(is_either(name) for group in idle for name in group)
    return any(for_async if is_either(name) else for_others for name in unread)


class ParkedOn(NamedTuple):
    """What a route is parked on, and until when at most."""

    on: str
    until: datetime | None = None


def budget_of(name: str) -> str:
    """What routes stopped by the budget of this limit are parked on."""
    return f"budget:{name}"


def parking_spot_for(route: WaitingRoute, reasons: tuple[Reason, ...]) -> ParkedOn | None:
    """Where to park a route that these reasons stopped: on the one that ends last, as far as is known. None
    when the next decision must read it."""
    spots = [spot for reason in reasons if (spot := _parking_spot(route, reason))]
    return max(spots, key=lambda spot: (spot.until is None, spot.until), default=None)


def _parking_spot(route: WaitingRoute, reason: Reason) -> ParkedOn | None:
    if reason.kind == "run_after":
        return ParkedOn(NOT_DUE, reason.until)
    if reason.kind == "retries":
        return ParkedOn("retries", reason.until)
    if reason.kind in AMOUNTS:
        return ParkedOn(budget_of(reason.limit), reason.wake_at)
    if reason.kind in ("reserved", "workers") or _stops_all(route, reason.limit):
        return None
    if reason.kind == "capacity" and route.is_heavy:
        return None  # Capacity may be reserved for it, which takes reading it.
    return ParkedOn(reason.limit, reason.wake_at)


def _stops_all(route: WaitingRoute, limit: str) -> bool:
    """Is this the fleet, the phase or the queue of the route, and so stops the whole queue?"""
    return limit in (FLEET, f"phase:{route.phase}", route.queue)
