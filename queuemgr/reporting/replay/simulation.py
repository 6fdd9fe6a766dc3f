"""What would have happened under other limits: recorded attempts put through the scheduler's decision.

A simulation from event to event: work arrives, the scheduler's own functions (`candidates.decide`,
`parking_spot_for`) say what starts and what is parked, and what starts runs as long as it ran. Pure.

Not simulated: circuit breakers and throttling (429), pauses, which worker serves which queue (all slots
serve all queues), and the time a message takes. An attempt is taken to cost and to use what it spent, and
days and other periods to begin with nothing spent before the recording.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from queuemgr.flows.flow import all_phases, queue_name
from queuemgr.reporting.replay.limits import ReplayLimits
from queuemgr.reporting.replay.recording import Recording
from queuemgr.reporting.replay.routes import ReadyRoutes, ReplayedRoute
from queuemgr.scheduling.admission import admit
from queuemgr.scheduling.candidates import RouteScan, decide, parking_spot_for, stopped_queues
from queuemgr.scheduling.claims import FLEET, RouteKind, route_keys
from queuemgr.scheduling.decision_input import LimitRule, Reason, SchedulingPolicy, Snapshot, WaitingRoute

TICK = timedelta(microseconds=2)
"""Added to the end of a wait, so that rounding never finds it not quite over."""

MAX_IDLE_DECISIONS = 200
"""Decisions in a row in which nothing starts, runs or arrives: what is left can never start."""

Timers = list[tuple[datetime, int]]
"""A heap of times and indexes."""


@dataclass(frozen=True)
class Fleet:
    """What attempts are replayed on: slots, limits, the scheduling policy and the retry budget."""

    slots: int
    rules: Mapping[str, LimitRule]
    policy: SchedulingPolicy = field(default_factory=SchedulingPolicy)
    retry_percent: int = 100


@dataclass(slots=True)
class Run:
    """When one attempt fell due, started and ended; whether a budget stopped it for a while."""

    due_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    stopped_by_budget: bool = False


@dataclass(frozen=True)
class Replayed:
    """The runs by index of their piece (those that never arrived are missing), and for each that
    arrived and could never start, the reason."""

    runs: Mapping[int, Run]
    never_started: Sequence[str] = ()


def replay(recording: Recording, fleet: Fleet) -> Replayed:
    """Put a recording through the decision, on this fleet."""
    return _Simulation(recording, fleet).run()


class _Simulation:
    def __init__(self, recording: Recording, fleet: Fleet) -> None:
        self._pieces, self._fleet = recording.pieces, fleet
        self._runs: dict[int, Run] = {}
        self._arrivals: Timers = [(recording.arrives_at(n), n) for n in recording.firsts]
        heapq.heapify(self._arrivals)
        self._now = self._arrivals[0][0] if self._arrivals else recording.since
        self._due_at = {n: recording.pieces[n].attempt.due_at for n in recording.firsts}
        self._ends: Timers = []
        self._parking_timers: Timers = []
        self._next_wakeup: datetime | None = None
        self._limits = ReplayLimits(fleet.rules, fleet.retry_percent)
        self._virtual_times: dict[str, float] = {}
        self._routes: list[ReplayedRoute] = []
        self._route_of: dict[RouteKind, ReplayedRoute] = {}
        self._ready = ReadyRoutes()
        self._parked: defaultdict[str, set[int]] = defaultdict(set)
        at = {(piece.kind.phase, piece.kind.priority) for piece in recording.pieces}
        self._queues = {queue_name(*queue): queue for queue in at}

    def run(self) -> Replayed:
        idle_decisions = 0
        while idle_decisions < MAX_IDLE_DECISIONS and (moment := self._next_event()):
            self._now = moment
            happened = self._end() + self._arrive()
            self._unpark_expired()
            started = self._start()
            moving = happened or started or self._ends or self._arrivals
            idle_decisions = 0 if moving else idle_decisions + 1
        return Replayed(self._runs, list(self._reasons_never_started()))

    def _next_event(self) -> datetime | None:
        heads = [timers[0][0] for timers in (self._ends, self._arrivals, self._parking_timers) if timers]
        if self._next_wakeup:
            heads.append(max(self._next_wakeup, self._now) + TICK)
        return min(heads, default=None)

    def _end(self) -> int:
        """End what has run its time: free its limits, and let the next attempt follow after its gap."""
        ended = list(_expired(self._ends, self._now))
        for index in ended:
            self._runs[index].ended_at = self._now
            piece = self._pieces[index]
            self._limits.end(piece.kind, self._now)
            for name in route_keys(piece.kind.limit_keys, piece.kind.resources):
                for pk in list(self._parked[name]):
                    self._unpark(self._routes[pk])
            if piece.next is not None:
                self._due_at[piece.next] = self._now + piece.gap
                heapq.heappush(self._arrivals, (self._due_at[piece.next], piece.next))
        return len(ended)

    def _arrive(self) -> int:
        arrived = list(_expired(self._arrivals, self._now))
        for index in arrived:
            route, due_at = self._route(self._pieces[index].kind), self._due_at[index]
            self._runs[index] = Run(due_at, stopped_by_budget=route.out_of_budget)
            insort(route.waiting, (due_at, index))
            if not route.parked:
                self._ready.add(route)
        return len(arrived)

    def _route(self, kind: RouteKind) -> ReplayedRoute:
        route = self._route_of.get(kind)
        if route is None:
            phases = all_phases()
            rank = phases[kind.phase].rank if kind.phase in phases else len(phases)
            route = self._route_of[kind] = ReplayedRoute(len(self._routes), kind, rank, self._now)
            self._routes.append(route)
        return route

    def _unpark_expired(self) -> None:
        for pk in _expired(self._parking_timers, self._now):
            parked = self._routes[pk].parked
            if parked and parked.until and parked.until <= self._now:
                self._unpark(self._routes[pk])

    def _start(self) -> int:
        """Start what may start now, and park what its own limits stop. Returns how many started."""
        self._next_wakeup = None
        free = self._fleet.slots - len(self._ends)
        if not free or not self._ready:
            return 0
        fleet = self._snapshot((), free)
        stopped = stopped_queues(fleet, {name: self._queues[name] for name in self._ready.queues})
        scan, decision = decide(partial(self._scan, stopped, free), free)
        self._next_wakeup = scan.next_wakeup(decision)
        self._virtual_times |= decision.virtual_times
        for pk in decision.starts:
            self._start_oldest(self._routes[pk])
        for waiting in scan.snapshot.routes:
            self._park(waiting, decision.reasons.get(waiting.id, ()))
        return len(decision.starts)

    def _scan(self, stopped: Mapping[str, tuple[Reason, ...]], free: int, at_most: int) -> RouteScan:
        """The routes to decide on, chosen as `snapshot.read_routes` chooses them."""
        starvation = self._fleet.policy.starvation
        aged_since = self._now - starvation if starvation else None
        open_queues = {name for name, reasons in stopped.items() if not reasons}
        candidates = {route.id: route for route in self._ready.candidates(open_queues, at_most, aged_since)}
        waiting = tuple(route.as_waiting(free, aged_since) for route in candidates.values())
        return RouteScan.of(self._snapshot(waiting, free), waiting, at_most, stopped)

    def _snapshot(self, routes: tuple[WaitingRoute, ...], free: int) -> Snapshot:
        names = {FLEET, *(f"phase:{phase}" for phase, _ in self._queues.values())}
        names.update(name for route in routes for name, _ in route.claims)
        return Snapshot(
            now=self._now,
            routes=routes,
            use=self._limits.usage(names, self._now),
            rules=self._limits.rules,
            paused_queues={},
            idle={frozenset(self._queues): free},
            unstarted={},
            ordering=self._fleet.policy,
            retries=self._limits.retry_budget(self._now),
            virtual_times=self._virtual_times,
        )

    def _start_oldest(self, route: ReplayedRoute) -> None:
        _, index = route.waiting.pop(0)
        self._ready.discard(route)
        route.served_at = self._now
        starts_at = self._runs[index].started_at = self._limits.start(route.kind, self._now)
        ends_at = starts_at + self._pieces[index].attempt.run_time
        heapq.heappush(self._ends, (ends_at, index))
        if route.waiting:
            self._ready.add(route)

    def _park(self, waiting: WaitingRoute, reasons: tuple[Reason, ...]) -> None:
        route = self._routes[waiting.id]
        spot = parking_spot_for(waiting, reasons)
        if not spot or not route.waiting:
            return
        self._ready.discard(route)
        route.parked = spot
        self._parked[spot.on].add(route.id)
        route.out_of_budget = any(reason.kind == "budget" for reason in reasons)
        if spot.until:
            heapq.heappush(self._parking_timers, (spot.until + TICK, route.id))
        if route.out_of_budget:
            for _, index in route.waiting:
                self._runs[index].stopped_by_budget = True

    def _unpark(self, route: ReplayedRoute) -> None:
        if route.parked:
            self._parked[route.parked.on].discard(route.id)
        route.parked, route.out_of_budget = None, False
        if route.waiting:
            self._ready.add(route)

    def _reasons_never_started(self) -> Iterator[str]:
        """A sentence for each attempt that still waits."""
        free = self._fleet.slots - len(self._ends)
        waiting = {route.id: route for route in self._routes if route.waiting}
        routes = tuple(route.as_waiting(free, None) for route in waiting.values())
        for pk, reasons in admit(self._snapshot(routes, free)).reasons.items():
            text = "; ".join(reason.text for reason in reasons)
            yield from [text] * len(waiting[pk].waiting)


def _expired(timers: Timers, now: datetime) -> Iterator[int]:
    """The indexes that are due by now, taken off the heap."""
    while timers and timers[0][0] <= now:
        yield heapq.heappop(timers)[1]
