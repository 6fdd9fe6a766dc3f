"""The order of starts: priority and aging, resumed before new, tenants by their shares, then age. Pure."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import NamedTuple

from queuemgr.flows.flow import HIGH
from queuemgr.scheduling.decision_input import GLOBAL_VIRTUAL_TIME, Snapshot, WaitingRoute


class RouteRank(NamedTuple):
    """Sort key of a route in the order of starts: lowest first. Aged work is sorted by age alone."""

    rank: int
    not_aged: bool
    head_at: datetime
    new: bool
    phase_rank: int
    tenant_virtual_time: float
    served: int
    served_at: datetime
    age: datetime
    id: int


class StartOrder:
    """The order of starts, as tenants and routes are served within one decision."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot, self._ordering = snapshot, snapshot.ordering
        self._now = snapshot.now
        self._served: Counter[int] = Counter()
        self._latest: dict[int, int] = {}
        self.virtual_times: dict[str, float] = {}
        # A new or returning tenant starts at the current virtual time, so it has no credit or debt
        # (start-time fair queueing, Goyal, Vin and Cheng 1996).
        known = snapshot.virtual_times
        here = known.get(GLOBAL_VIRTUAL_TIME, 0.0) - 1e-6
        waiting = {r.tenant for r in snapshot.routes if r.due} if self._ordering.shares else set[str]()
        self._tenants = {name: max(known.get(name, here), here) for name in waiting}

    def rank(self, route: WaitingRoute) -> int:
        """Its priority level, one better for every starvation time its head has waited."""
        return max(HIGH, route.priority - self._aging_steps(route))

    def _aging_steps(self, route: WaitingRoute) -> int:
        starvation = self._ordering.starvation
        if not starvation or route.priority == HIGH:
            return 0
        if self._served[route.id] and self._served[route.id] >= route.overdue:
            return 0
        return max(0, route.waited(self._now) // starvation)

    def is_starved_heavy(self, route: WaitingRoute) -> bool:
        """Heavy work that waited past `heavy_wait`: first on its priority level, with capacity reserved."""
        patience = self._ordering.heavy_wait
        if patience is None or self._served[route.id]:
            return False
        return route.is_heavy and route.waited(self._now) > patience

    def sort_key(self, route: WaitingRoute) -> RouteRank:
        aged = self._aging_steps(route) > 0 or self.is_starved_heavy(route)
        return RouteRank(
            rank=self.rank(route),
            not_aged=not aged,
            head_at=route.head_at or self._now if aged else self._now,
            new=not route.resumed,
            phase_rank=route.phase_rank,
            tenant_virtual_time=self._tenants.get(route.tenant, 0.0),
            served=self._latest.get(route.id, 0),
            served_at=route.served_at,
            age=route.head_at or self._now,
            id=route.id,
        )

    def is_outdated(self, key: RouteRank, route: WaitingRoute) -> bool:
        """Was its tenant served since this sort key was computed?"""
        return key.not_aged and key.tenant_virtual_time < self._tenants.get(route.tenant, 0.0)

    def served(self, route: WaitingRoute) -> None:
        self._served[route.id] += 1
        self._latest[route.id] = self._served.total()
        if route.tenant in self._tenants:
            share = self._snapshot.rule(route.tenant).share if route.tenant else 1
            self.virtual_times[GLOBAL_VIRTUAL_TIME] = self._tenants[route.tenant]
            self._tenants[route.tenant] += route.weight / max(1, share)
            self.virtual_times[route.tenant] = self._tenants[route.tenant]
