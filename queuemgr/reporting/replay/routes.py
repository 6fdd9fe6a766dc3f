"""Waiting work as a replay keeps it: by route, by lane, and in each lane by turn. Pure."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from queuemgr.reporting.replay.recording import RouteKey
from queuemgr.scheduling.admission import Reason, WaitingRoute
from queuemgr.scheduling.claims import route_keys, tenant_of


class RouteGroup(NamedTuple):
    """Routes that take turns among themselves."""

    phase: str
    priority: int
    resumed: bool


class Route:
    """Work of one kind that waits, oldest first, and what it is parked on until when."""

    def __init__(self, number: int, kind: RouteKey, now: datetime, rank: int) -> None:
        self.number, self.kind, self._rank = number, kind, rank
        self.waiting: list[tuple[datetime, int]] = []
        self.served_at = now
        self.parked_on = ""
        self.parked_until: datetime | None = None
        self.reasons: tuple[Reason, ...] = ()
        self.names = tuple(name for name, _ in kind.claims)
        self.own = route_keys(kind.limit_keys, kind.tokens)
        self.tenant = tenant_of(kind.limit_keys)
        self.lane = RouteGroup(kind.phase, kind.priority, kind.resumed)
        self.heavy = any(weight > 1 for _, weight in kind.claims)

    def seen(self, most: int, aged_since: datetime | None) -> WaitingRoute:
        kind = self.kind
        old = bisect_right(self.waiting, (aged_since, len(self.waiting))) if aged_since else 0
        return WaitingRoute(
            id=self.number, phase=kind.phase, priority=kind.priority, resumed=kind.resumed,
            limit_keys=kind.limit_keys, cost=kind.cost, weight=kind.weight,
            due=min(most, len(self.waiting)), head_at=self.waiting[0][0], served_at=self.served_at,
            phase_rank=self._rank, tokens=kind.tokens, retrying=kind.retrying,
            overdue=min(most, old),
        )  # fmt: skip

    def park(self, reasons: tuple[Reason, ...]) -> None:
        """Leave it out of decisions while a reason lasts that only time or one limit's room can end:
        of several that with the latest end. What waits for anything else is looked at each time."""
        self.reasons = reasons
        timed = [reason.until for reason in reasons if reason.until]
        self.parked_until = max(timed, default=None)
        if not timed and not self.heavy:
            own = (r.limit for r in reasons if r.kind == "capacity" and r.limit in self.own)
            self.parked_on = next(own, "")

    @property
    def is_parked(self) -> bool:
        return bool(self.parked_on or self.parked_until)

    @property
    def out_of_budget(self) -> bool:
        return self.is_parked and any(reason.kind == "budget" for reason in self.reasons)

    def wake(self) -> None:
        self.parked_on, self.parked_until = "", None


Turn = tuple[datetime, int]
"""When a route was served last, and its number."""


class RouteGroups:
    """Routes to look at, by lane and tenant, each in the order of turns."""

    def __init__(self, routes: list[Route]) -> None:
        self._routes = routes
        self._lanes: dict[RouteGroup, dict[str, list[Turn]]] = {}
        self._turns: dict[int, Turn] = {}

    def __bool__(self) -> bool:
        return bool(self._turns)

    def __iter__(self) -> Iterator[RouteGroup]:
        return iter(list(self._lanes))

    def add(self, route: Route) -> None:
        """Take a route in, or move it to the turn it has now."""
        self.discard(route)
        turn = self._turns[route.number] = (route.served_at, route.number)
        insort(self._lanes.setdefault(route.lane, {}).setdefault(route.tenant, []), turn)

    def discard(self, route: Route) -> None:
        turn = self._turns.pop(route.number, None)
        if turn is None:
            return
        tenants = self._lanes[route.lane]
        in_turn = tenants[route.tenant]
        del in_turn[bisect_left(in_turn, turn)]
        if not in_turn:
            del tenants[route.tenant]
        if not tenants:
            del self._lanes[route.lane]

    def size(self, lane: RouteGroup) -> int:
        return sum(map(len, self._lanes[lane].values()))

    def first(
        self,
        lane: RouteGroup,
        at_most: int,
        turns: Mapping[str, float],
        strides: Mapping[str, float],
    ) -> list[Route]:
        """The routes of a lane whose turn comes first: the tenants', by how far each has come
        (`turns`) and comes with each start (`strides`), then the routes'."""
        line: list[tuple[float, Turn]] = []
        for tenant, in_turn in self._lanes[lane].items():
            turn, stride = turns[tenant], strides[tenant]
            some = in_turn[:at_most]
            line += [(turn + nth * stride, served) for nth, served in enumerate(some)]
        return [self._routes[number] for _, (_, number) in heapq.nsmallest(at_most, line)]

    def tenants(self, lane: RouteGroup) -> list[str]:
        return list(self._lanes[lane])

    def oldest(self, lane: RouteGroup, at_most: int, before: datetime) -> list[Route]:
        """Those whose head fell due before a moment, the oldest first."""
        routes = (self._routes[n] for turns in self._lanes[lane].values() for _, n in turns)
        aged = (route for route in routes if route.waiting[0][0] < before)
        return heapq.nsmallest(at_most, aged, key=lambda route: route.waiting[0])
