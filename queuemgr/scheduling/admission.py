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

from queuemgr.scheduling.capacity import Capacity, either
from queuemgr.scheduling.decision_input import Reason, Snapshot, WaitingRoute, opens_at
from queuemgr.scheduling.limit_checks import LimitChecks
from queuemgr.scheduling.start_order import StartOrder


@dataclass(frozen=True)
class Decision:
    """Routes to start, in order (one entry a start), why the others wait, and what is left idle.

    `virtual_times`: of each tenant served, to be saved for the next decision. `early`: how many of the
    starts, the last ones, are granted before their rates allow them.
    """

    starts: tuple[int, ...]
    reasons: Mapping[int, tuple[Reason, ...]]
    capacity: Capacity = field(compare=False)
    virtual_times: Mapping[str, float] = field(default_factory=dict)
    early: int = 0

    @property
    def wake_at(self) -> datetime | None:
        """The earliest time at which nothing may stop one of these routes any more."""
        times = map(opens_at, self.reasons.values())
        return min((moment for moment in times if moment), default=None)


def admit(snapshot: Snapshot) -> Decision:
    """Decide what starts now. Cost: routes plus starts, each times the log of the routes.

    What a rate allows within the lead is granted last, to slots that nothing else can use now.
    """
    capacity, order = LimitChecks(snapshot), StartOrder(snapshot)
    _reserve_for_heavy(snapshot.routes, capacity, order)
    filling = _Filling(capacity, order)
    filling.fill((route, route.due) for route in snapshot.routes)
    on_time = len(filling.starts)
    if early := filling.stopped_by_rates(snapshot):
        capacity.allow_early()
        filling.fill(early)
    starts = tuple(filling.starts)
    return Decision(starts, filling.reasons, capacity.slots, order.virtual_times, len(starts) - on_time)


class _Filling:
    """Starts granted so far, and of each route that was stopped why, and how much of it is left."""

    def __init__(self, capacity: LimitChecks, order: StartOrder) -> None:
        self._capacity, self._order = capacity, order
        self.starts: list[int] = []
        self.reasons: dict[int, tuple[Reason, ...]] = {}
        self._left: dict[int, int] = {}

    def fill(self, routes: Iterable[tuple[WaitingRoute, int]]) -> None:
        """Start as much as may be of these routes, each with so many executions due."""
        order = self._order
        queue = [(order.sort_key(route), route, due) for route, due in routes]
        heapq.heapify(queue)
        while queue:
            key, route, due = heapq.heappop(queue)
            if order.is_outdated(key, route):
                heapq.heappush(queue, (order.sort_key(route), route, due))
                continue
            stopped = self._capacity.blocking_reasons(route, key.rank) if due else (_not_due(route),)
            if stopped:
                self.reasons[route.id], self._left[route.id] = stopped, due
                continue
            self._capacity.take(route)
            order.served(route)
            self.starts.append(route.id)
            if due > 1:
                heapq.heappush(queue, (order.sort_key(route), route, due - 1))

    def stopped_by_rates(self, snapshot: Snapshot) -> list[tuple[WaitingRoute, int]]:
        """Take out the routes stopped by nothing but rates that open within the lead, and what is left of
        each."""
        early = [route for route in snapshot.routes if self._opens_soon(route, snapshot.now)]
        for route in early:
            del self.reasons[route.id]
        return [(route, self._left[route.id]) for route in early]

    def _opens_soon(self, route: WaitingRoute, now: datetime) -> bool:
        stopped = self.reasons.get(route.id, ())
        return bool(stopped) and all(
            reason.kind in ("rate", "allowance") and reason.wake_at is not None and reason.wake_at <= now
            for reason in stopped
        )


def open_queues(snapshot: Snapshot, queues: Iterable[tuple[str, int]]) -> dict[str, tuple[Reason, ...]]:
    """Reasons that block every route of a queue (phase, priority), found by testing a weight-1,
    zero-cost probe; empty: nothing does. Routes of a blocked queue need not be read."""
    capacity = LimitChecks(snapshot)
    capacity.allow_early()
    reasons: dict[str, tuple[Reason, ...]] = {}
    for phase, priority in queues:
        probe = WaitingRoute(
            id=0, phase=phase, priority=priority, resumed=True, limit_keys="", cost=0, weight=1, due=1,
            head_at=snapshot.now, served_at=snapshot.now,
        )  # fmt: skip
        stopped = capacity.limit_reasons(probe, priority)
        if not stopped and not capacity.is_consumed(probe.queue, either(probe.queue)):
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
    starved = [r for r in routes if order.is_starved_heavy(r) and capacity.is_consumed(r.slot)]
    for route in sorted(starved, key=order.sort_key):
        capacity.reserve(route, order.rank(route))
