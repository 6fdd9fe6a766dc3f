"""Waiting work during a replay: what the database holds in routes, in memory. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from heapq import nsmallest
from itertools import islice

from queuemgr.flows.flow import HIGH
from queuemgr.scheduling.candidates import ParkedOn
from queuemgr.scheduling.claims import RouteKind
from queuemgr.scheduling.decision_input import WaitingRoute

Group = tuple[str, bool, str]
"""Routes served in turn: those of one queue and tenant, for resumed work or for new."""


@dataclass(slots=True)
class ReplayedRoute:
    """Work of one kind: when each piece fell due and its index, oldest first."""

    id: int
    kind: RouteKind
    phase_rank: int
    served_at: datetime
    waiting: list[tuple[datetime, int]] = field(default_factory=list)
    parked: ParkedOn | None = None
    out_of_budget: bool = False
    group: Group = field(init=False)

    def __post_init__(self) -> None:
        self.group = (self.kind.queue, self.kind.resumed, self.kind.tenant)

    def as_waiting(self, free_slots: int, aged_since: datetime | None) -> WaitingRoute:
        """As admission sees it; work is counted no further than there are free slots."""
        aged = bisect_right(self.waiting, (aged_since, len(self.waiting))) if aged_since else 0
        return WaitingRoute(
            id=self.id,
            due=min(free_slots, len(self.waiting)),
            overdue=min(free_slots, aged),
            head_at=self.waiting[0][0],
            served_at=self.served_at,
            phase_rank=self.phase_rank,
            **vars(self.kind),
        )


class ReadyRoutes:
    """Unparked routes with waiting work, by group, the one served longest ago first."""

    def __init__(self) -> None:
        self._groups: defaultdict[Group, list[tuple[datetime, int]]] = defaultdict(list)
        self._routes: dict[int, ReplayedRoute] = {}

    def __bool__(self) -> bool:
        return bool(self._routes)

    def add(self, route: ReplayedRoute) -> None:
        if route.id not in self._routes:
            self._routes[route.id] = route
            insort(self._groups[route.group], (route.served_at, route.id))

    def discard(self, route: ReplayedRoute) -> None:
        if self._routes.pop(route.id, None):
            group = self._groups[route.group]
            del group[bisect_left(group, (route.served_at, route.id))]

    @property
    def queues(self) -> set[str]:
        return {queue for (queue, _, _), group in self._groups.items() if group}

    def candidates(
        self, open_queues: Collection[str], at_most: int, aged_since: datetime | None
    ) -> Iterator[ReplayedRoute]:
        """The routes a decision reads: so many of each group of an open queue, and of those aged."""
        for (queue, _, _), group in self._groups.items():
            if queue in open_queues:
                yield from (self._routes[pk] for _, pk in islice(group, at_most))
        if aged_since:
            aged = (
                route
                for route in self._routes.values()
                if route.waiting[0][0] < aged_since and route.kind.priority != HIGH
            )
            yield from nsmallest(at_most, aged, key=lambda route: route.waiting[0])
