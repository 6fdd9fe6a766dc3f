"""What starts now, and why each other thing waits: one pure decision over every limit at once.

No database, no clock, no Celery: `admit(snapshot)` can be tested with generated cases, explained to
a person and replayed on old data. A start must pass every limit on its route. The order: priority
level, raised by aging; resumed before new; phase rank; the tenant with the lowest virtual time; the
route served longest ago; age.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from queuemgr.scheduling.capacity import Capacity
from queuemgr.scheduling.decision_input import Reason, Snapshot, WaitingRoute
from queuemgr.scheduling.limit_checks import LimitChecks
from queuemgr.scheduling.start_order import StartOrder


@dataclass(frozen=True)
class Decision:
    """Routes to start, in order (one entry a start), why the others wait, and what is left idle.

    `virtual_times`: of each tenant served, to be saved for the next decision.
    """

    starts: tuple[int, ...]
    reasons: Mapping[int, tuple[Reason, ...]]
    capacity: Capacity = field(compare=False)
    virtual_times: Mapping[str, float] = field(default_factory=dict)

    @property
    def wake_at(self) -> datetime | None:
        """The earliest end time of these reasons."""
        times = (reason.until for stopped in self.reasons.values() for reason in stopped)
        return min((until for until in times if until), default=None)


def admit(snapshot: Snapshot) -> Decision:
    """Decide what starts now. Cost: routes plus starts, each times the log of the routes."""
    capacity, order = LimitChecks(snapshot), StartOrder(snapshot)
    _reserve_for_heavy(snapshot.routes, capacity, order)
    starts: list[int] = []
    reasons: dict[int, tuple[Reason, ...]] = {}
    queue = [(order.sort_key(route), route, route.due) for route in snapshot.routes]
    heapq.heapify(queue)
    while queue:
        key, route, due = heapq.heappop(queue)
        if order.is_outdated(key, route):
            heapq.heappush(queue, (order.sort_key(route), route, due))
            continue
        stopped = capacity.blocking_reasons(route, key.rank) if due else (_not_due(route),)
        if stopped:
            reasons[route.id] = stopped
            continue
        capacity.take(route)
        order.served(route)
        starts.append(route.id)
        if due > 1:
            heapq.heappush(queue, (order.sort_key(route), route, due - 1))
    return Decision(tuple(starts), reasons, capacity.slots, order.virtual_times)


def open_queues(snapshot: Snapshot, queues: Iterable[tuple[str, int]]) -> dict[str, tuple[Reason, ...]]:
    """Reasons that block every route of a queue (phase, priority), found by testing a weight-1,
    zero-cost probe; empty: nothing does. Routes of a blocked queue need not be read."""
    capacity = LimitChecks(snapshot)
    reasons: dict[str, tuple[Reason, ...]] = {}
    for phase, priority in queues:
        probe = WaitingRoute(
            id=0, phase=phase, priority=priority, resumed=True, limit_keys="", cost=0, weight=1, due=1,
            head_at=snapshot.now, served_at=snapshot.now,
        )  # fmt: skip
        stopped = capacity.limit_reasons(probe, priority)
        if not stopped and not capacity.is_consumed(probe.queue):
            stopped = (capacity.no_slot_reason(probe),)
        reasons[probe.queue] = stopped
    return reasons


def _not_due(route: WaitingRoute) -> Reason:
    if route.head_at is None:
        return Reason("batch_window", "waits for its batch window", None, "batch_window")
    text = f"due at {route.head_at:%Y-%m-%d %H:%M:%S} UTC"
    return Reason("run_after", text, route.head_at, "run_after")


def _reserve_for_heavy(routes: Iterable[WaitingRoute], capacity: LimitChecks, order: StartOrder) -> None:
    """Reserve capacity for heavy routes that waited long, in the order in which they would start."""
    starved = [r for r in routes if order.is_starved_heavy(r) and capacity.is_consumed(r.queue)]
    for route in sorted(starved, key=order.sort_key):
        capacity.reserve(route, order.rank(route))
