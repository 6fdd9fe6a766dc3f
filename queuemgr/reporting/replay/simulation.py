"""What would have happened under other limits: recorded work put through the same decision. Pure.

A simulation from event to event: work comes, `admission.admit` decides, what starts runs as long as
it ran. The clocks of rates, what is spent of each day, turns and the share of retries are kept here,
as the fleet's database keeps them.

Not simulated: closings by services (429, breakers) and pauses; which worker serves which queue (one
group of slots serves all); the time a message takes. Work is taken to cost what it spent, and days to
begin with nothing spent before the window.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from queuemgr.flows.flow import HIGH, queue_name
from queuemgr.reporting.replay.limits import Limits, Retries, RetryShare
from queuemgr.reporting.replay.recording import Recording, RouteKey
from queuemgr.reporting.replay.routes import Route, RouteGroup, RouteGroups
from queuemgr.scheduling.admission import (
    FLEET,
    GLOBAL_VIRTUAL_TIME,
    BreakerState,
    Decision,
    LimitRule,
    Reason,
    SchedulingPolicy,
    Snapshot,
    WaitingRoute,
    admit,
)

TICK = timedelta(microseconds=2)
"""Added to the end of a wait, so that rounding never finds it still a hair from over."""

LOOKAHEAD_FACTOR = 8
"""How many times as many routes are looked at when those before did not fill the room."""

GIVE_UP_AFTER = 200
"""Looks in a row at which nothing starts, runs or comes: what is left can never start."""


@dataclass(frozen=True)
class Fleet:
    """What work is replayed on: slots, the rules of limits, and the order of starts."""

    slots: int
    rules: Mapping[str, LimitRule]
    ordering: SchedulingPolicy = field(default_factory=SchedulingPolicy)
    phase_ranks: Mapping[str, int] = field(default_factory=dict)
    retries: RetryShare = field(default_factory=RetryShare)


@dataclass(slots=True)
class Run:
    """How one piece of work went: when it fell due, started and ended; whether a budget stopped it."""

    due_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    stopped_by_budget: bool = False


@dataclass(frozen=True)
class Replayed:
    """Every piece by its place in the recording (those that never came are missing), and what stopped
    those that came and could never start."""

    runs: Mapping[int, Run]
    never: tuple[str, ...] = ()


def replay(recorded: Recording, fleet: Fleet) -> Replayed:
    """Put a recording through the decision, on this fleet."""
    return _Simulation(recorded, fleet).run()


class _Simulation:
    """One replay. `_ready` holds routes to look at, `_parked` the others by what they are parked on."""

    def __init__(self, recorded: Recording, fleet: Fleet) -> None:
        self._recorded, self._fleet = recorded, fleet
        arrivals = [(recorded.arrives_at(n), n) for n in recorded.firsts]
        self._now = min((at for at, _ in arrivals), default=recorded.since)
        self._due_at = {n: recorded.pieces[n].attempt.due_at for n in recorded.firsts}
        self._arrivals = arrivals
        heapq.heapify(self._arrivals)
        self._ends: list[tuple[datetime, int]] = []
        self._wakes: list[tuple[datetime, int]] = []
        self._limits = Limits(fleet.rules, self._now)
        self._retries = Retries(fleet.retries)
        self._routes: list[Route] = []
        self._by_kind: dict[RouteKey, Route] = {}
        self._ready = RouteGroups(self._routes)
        self._parked: defaultdict[str, set[int]] = defaultdict(set)
        self._turns: dict[str, float] = {}
        self._by_age: list[tuple[datetime, int]] = []
        self._look_at: datetime | None = None
        self._queues = frozenset(
            queue_name(p.kind.phase, p.kind.priority) for p in recorded.pieces
        )  # fmt: skip
        self.runs: dict[int, Run] = {}

    def run(self) -> Replayed:
        idle_looks = 0
        while idle_looks < GIVE_UP_AFTER and (moment := self._next()):
            self._now = moment
            self._limits.pass_to(moment)
            happened = self._ended() + self._arrived()
            self._woken()
            started = self._start_what_may()
            moving = happened or started or self._ends or self._arrivals
            idle_looks = 0 if moving else idle_looks + 1
        return Replayed(self.runs, tuple(self._stuck()))

    def _next(self) -> datetime | None:
        """The next moment anything happens."""
        heads = [heap[0][0] for heap in (self._ends, self._arrivals, self._wakes) if heap]
        if self._look_at and self._look_at > self._now:
            heads.append(self._look_at)
        return min(heads, default=None)

    def _ended(self) -> int:
        ended = list(_taken(self._ends, self._now))
        for piece in ended:
            run, kind = self.runs[piece], self._recorded.pieces[piece].kind
            assert run.started_at is not None
            run.ended_at = self._now
            self._limits.end(kind, run.started_at)
            self._retries.end(kind, self._now)
            self._follow(piece)
            for name in self._by_kind[kind].names:
                self._wake(list(self._parked.pop(name, ())))
        return len(ended)

    def _follow(self, piece: int) -> None:
        """Let the attempt that followed this one come as long after its end as it came."""
        done = self._recorded.pieces[piece]
        if done.follower is not None:
            self._due_at[done.follower] = self._now + done.gap
            heapq.heappush(self._arrivals, (self._due_at[done.follower], done.follower))

    def _arrived(self) -> int:
        arrived = list(_taken(self._arrivals, self._now))
        for piece in arrived:
            due_at = self._due_at[piece]
            self.runs[piece] = Run(due_at)
            route = self._route_of(self._recorded.pieces[piece].kind)
            insort(route.waiting, (due_at, piece))
            heapq.heappush(self._by_age, (due_at, piece))
            self.runs[piece].stopped_by_budget = route.out_of_budget
            if not route.is_parked:
                self._ready.add(route)
        return len(arrived)

    def _route_of(self, kind: RouteKey) -> Route:
        route = self._by_kind.get(kind)
        if route is None:
            rank = self._fleet.phase_ranks.get(kind.phase, len(self._fleet.phase_ranks))
            route = self._by_kind[kind] = Route(len(self._routes), kind, self._now, rank)
            self._routes.append(route)
            self._limits.know(kind)
        return route

    def _woken(self) -> None:
        """Routes whose wait for a time is over; one parked anew since then waits for its new time."""
        for number in _taken(self._wakes, self._now):
            until = self._routes[number].parked_until
            if until is not None and until + TICK <= self._now:
                self._wake([number])

    def _wake(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            route = self._routes[number]
            route.wake()
            if route.waiting:
                self._ready.add(route)

    def _start_what_may(self) -> int:
        """Decide on as many routes as there is room for; on more only while room would stay empty."""
        started, times = 0, 1
        self._look_at = None
        while self._idle and self._ready:
            chosen, cut_off = self._in_turn(times)
            granted = self._act_on(admit(self._snapshot(chosen))) if chosen else 0
            started += granted
            if not granted and not cut_off:
                break
            times *= 1 if granted else LOOKAHEAD_FACTOR
        return started

    def _in_turn(self, times: int) -> tuple[list[Route], bool]:
        """The routes whose turn it is: of each lane `times` as many as its fleet and phase have room
        for, and those of great age, none of a lane without room; and whether there are more."""
        chosen: dict[int, Route] = {}
        cut_off, turns = False, self._turns_of_tenants()
        for lane in self._ready:
            at_most = times * self._room_of(lane)
            if not at_most:
                continue
            strides = {t: 1 / self._limits.share(t) for t in self._ready.tenants(lane)}
            some = self._ready.first(lane, at_most, turns, strides)
            if self._some_aged and lane.priority != HIGH:
                some += self._ready.oldest(lane, at_most, self._some_aged)
            cut_off |= self._ready.size(lane) > at_most
            chosen |= {route.number: route for route in some}
        return list(chosen.values()), cut_off

    def _turns_of_tenants(self) -> Mapping[str, float]:
        """How far each tenant has come; who is new comes with neither credit nor debt."""
        if not self._fleet.ordering.shares:
            return defaultdict(float)
        here = self._turns.get(GLOBAL_VIRTUAL_TIME, 0.0)
        return defaultdict(lambda: here, {t: max(n, here) for t, n in self._turns.items()})

    @property
    def _some_aged(self) -> datetime | None:
        """Since when work that waits is raised, if any has waited so long."""
        while self._by_age and self.runs[self._by_age[0][1]].started_at:
            heapq.heappop(self._by_age)
        since = self._aged_since
        return since if since and self._by_age and self._by_age[0][0] < since else None

    @property
    def _idle(self) -> int:
        return self._fleet.slots - len(self._ends)

    def _room_of(self, lane: RouteGroup) -> int:
        """How many more of a lane its fleet and its phase can let start now, at the very most."""
        room = self._idle
        for name in (FLEET, f"phase:{lane.phase}"):
            left, until = self._limits.room(name, lane.priority)
            room = min(room, left)
            if until and (self._look_at is None or until + TICK < self._look_at):
                self._look_at = until + TICK
        return room

    @property
    def _aged_since(self) -> datetime | None:
        starvation = self._fleet.ordering.starvation
        return self._now - starvation if starvation else None

    def _snapshot(self, chosen: Iterable[Route]) -> Snapshot:
        routes = tuple(route.seen(self._idle, self._aged_since) for route in chosen)
        return self._seen(routes, {name for route in chosen for name in route.names})

    def _seen(self, routes: tuple[WaitingRoute, ...], names: Iterable[str]) -> Snapshot:
        """What a decision on these routes looks at, of the limits they pass."""
        retrying = any(route.retrying for route in routes)
        clocks = self._limits.clocks
        return Snapshot(
            now=self._now,
            routes=routes,
            rules=self._limits.rules,
            use={name: self._limits.use[name] for name in names},
            paused_queues={},
            idle={self._queues: self._idle},
            on_their_way={},
            breaker_states={name: BreakerState(clocks[name]) for name in names if name in clocks},
            ordering=self._fleet.ordering,
            retries=self._retries.room(self._now) if retrying else None,
            virtual_times=self._turns,
        )

    def _act_on(self, decision: Decision) -> int:
        self._turns.update(decision.virtual_times)
        for number in decision.starts:
            self._start(self._routes[number])
        for number, reasons in decision.reasons.items():
            self._stop(self._routes[number], reasons)
        return len(decision.starts)

    def _start(self, route: Route) -> None:
        _, piece = route.waiting.pop(0)
        route.served_at = self.runs[piece].started_at = self._now
        self._limits.start(route.kind)
        self._retries.start(route.kind)
        attempt = self._recorded.pieces[piece].attempt
        heapq.heappush(self._ends, (self._now + attempt.ran, piece))
        if route.waiting:
            self._ready.add(route)
        else:
            self._ready.discard(route)

    def _stop(self, route: Route, reasons: tuple[Reason, ...]) -> None:
        route.park(reasons)
        if not route.waiting or not route.is_parked:
            return
        self._ready.discard(route)
        if route.parked_until:
            heapq.heappush(self._wakes, (route.parked_until + TICK, route.number))
        else:
            self._parked[route.parked_on].add(route.number)
        if route.out_of_budget:
            for _, piece in route.waiting:
                self.runs[piece].stopped_by_budget = True

    def _stuck(self) -> Iterator[str]:
        """The reason of each piece that came and never started."""
        for route in self._routes:
            for _ in route.waiting:
                yield "; ".join(reason.text for reason in route.reasons)


def _taken(heap: list[tuple[datetime, int]], now: datetime) -> Iterator[int]:
    """What is due by now, taken off the heap."""
    while heap and heap[0][0] <= now:
        yield heapq.heappop(heap)[1]
