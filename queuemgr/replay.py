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
from bisect import bisect_right, insort
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from queuemgr.admission import (
    FLEET,
    LAST_TURN,
    Decision,
    Gate,
    Ordering,
    Reason,
    RetryRoom,
    Rule,
    Snapshot,
    Use,
    WaitingRoute,
    admit,
    rule_for,
)  # fmt: skip
from queuemgr.budget_day import day_ends
from queuemgr.claims import claims_of, own_names, tenant_of
from queuemgr.flow import HIGH, queue_name
from queuemgr.recording import Kind, Recording

TICK = timedelta(microseconds=2)
"""Added to the end of a wait, so that rounding never finds it still a hair from over."""

MORE = 8
"""How many times as many routes are looked at when those before did not fill the room."""

MANY = 1_000_000

GIVE_UP_AFTER = 200
"""Looks in a row at which nothing starts, runs or comes: what is left can never start."""


@dataclass(frozen=True)
class RetryShare:
    """At most so many percent of the starts of a window may be retries; `always` whatever the share."""

    percent: int = 100
    window: timedelta = timedelta(minutes=5)
    always: int = 20


@dataclass(frozen=True)
class Fleet:
    """What work is replayed on: slots, the rules of limits, and the order of starts."""

    slots: int
    rules: Mapping[str, Rule]
    ordering: Ordering = field(default_factory=Ordering)
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


class _Limits:
    """The rules of limits, what stands against them, and their clocks, as time goes by."""

    def __init__(self, rules: Mapping[str, Rule], now: datetime) -> None:
        self._stated = rules
        self.rules: dict[str, Rule] = {}
        self.use: defaultdict[str, Use] = defaultdict(Use)
        self.clocks: dict[str, float] = {}
        self._day_ends: dict[str, datetime] = {}
        self._day_began: dict[str, datetime] = {}
        self._now = now

    def know(self, kind: Kind) -> None:
        """Find the rules of a kind of work once, so that no decision looks through patterns."""
        for name, _ in _claims(kind):
            if name not in self.rules:
                self.rules[name] = rule_for(self._stated, name)
                if self.rules[name].daily_budget is not None:
                    self._begin_day(name, self._now)

    def pass_to(self, now: datetime) -> None:
        """Begin the days that have begun by now: nothing is spent of them."""
        self._now = now
        for name, ends in self._day_ends.items():
            if now >= ends:
                self._begin_day(name, ends)
                self.use[name].spent = self.use[name].reserved = 0

    def _begin_day(self, name: str, at: datetime) -> None:
        ends = day_ends(max(at, self._now), self.rules[name].budget_zone)
        self._day_began[name], self._day_ends[name] = at, ends
        self.rules[name] = replace(self.rules[name], day_ends=ends)

    def start(self, kind: Kind) -> None:
        for name, weight in _claims(kind):
            self._weigh(name, kind, weight, 1)
            self.use[name].reserved += kind.cost
            rate = self.rules[name].rate
            if rate:
                now = self._now.timestamp()
                self.clocks[name] = max(self.clocks.get(name, 0.0), now) + rate.interval

    def end(self, kind: Kind, started_at: datetime) -> None:
        """Give room back; what was reserved is spent, on the day it was reserved against."""
        for name, weight in _claims(kind):
            self._weigh(name, kind, -weight, -1)
            if started_at >= self._day_began.get(name, started_at):
                self.use[name].reserved -= kind.cost
                self.use[name].spent += kind.cost

    def room(self, name: str, priority: int) -> tuple[int, datetime | None]:
        """How many more may start under a limit at the very most, and when its rate lets one through
        if it does not now: what saves looking at routes that cannot start."""
        rule, use, most = self.rules[name], self.use[name], MANY
        if rule.max_running:
            most = rule.max_running - use.running
            if priority != HIGH:
                most = min(most, rule.max_running - rule.reserved_high - use.below_high)
        if rule.rate:
            ahead = self.clocks.get(name, 0.0) - self._now.timestamp()
            wait = rule.rate.wait(ahead, 0)
            if wait > 1e-6:
                return 0, self._now + timedelta(seconds=wait)
            free = (rule.rate.tolerance - max(ahead, 0.0)) / rule.rate.interval
            most = min(most, int(free + 1e-6) + 1)
        return max(0, most), None

    def share(self, tenant: str) -> int:
        return max(1, self.rules[tenant].share) if tenant else 1

    def _weigh(self, name: str, kind: Kind, weight: int, leases: int) -> None:
        use = self.use[name]
        use.running += weight
        use.below_high += weight if kind.priority != HIGH else 0
        use.leases += leases


def _claims(kind: Kind) -> tuple[tuple[str, int], ...]:
    return claims_of(kind.phase, kind.limit_keys, kind.tokens, kind.weight)


class _Retries:
    """The share of retries among the starts of the last minutes."""

    def __init__(self, share: RetryShare) -> None:
        self._share = share
        self._ended: deque[tuple[datetime, bool]] = deque()
        self._retries = self._running = 0

    def start(self, kind: Kind) -> None:
        self._running += 1
        self._retries += kind.retrying

    def end(self, kind: Kind, now: datetime) -> None:
        self._running -= 1
        self._ended.append((now, kind.retrying))

    def room(self, now: datetime) -> RetryRoom | None:
        if self._share.percent >= 100:
            return None
        while self._ended and self._ended[0][0] <= now - self._share.window:
            self._retries -= self._ended.popleft()[1]
        starts = self._running + len(self._ended)
        most = max(self._share.always, starts * self._share.percent // 100)
        again = now + timedelta(seconds=5)
        return RetryRoom(max(0, most - self._retries), "retry budget", again)


class Lane(NamedTuple):
    """Routes that take turns among themselves."""

    phase: str
    priority: int
    resumed: bool


class _Route:
    """Work of one kind that waits, oldest first, and what it is parked on until when."""

    def __init__(self, number: int, kind: Kind, now: datetime, rank: int) -> None:
        self.number, self.kind, self._rank = number, kind, rank
        self.waiting: list[tuple[datetime, int]] = []
        self.served_at = now
        self.parked_on = ""
        self.parked_until: datetime | None = None
        self.reasons: tuple[Reason, ...] = ()
        self.names = tuple(name for name, _ in _claims(kind))
        self.own = own_names(kind.limit_keys, kind.tokens)
        self.tenant = tenant_of(kind.limit_keys)
        self.lane = Lane(kind.phase, kind.priority, kind.resumed)
        self.heavy = any(weight > 1 for _, weight in _claims(kind))

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
            own = (r.limit for r in reasons if r.kind == "room" and r.limit in self.own)
            self.parked_on = next(own, "")

    @property
    def is_parked(self) -> bool:
        return bool(self.parked_on or self.parked_until)

    @property
    def out_of_budget(self) -> bool:
        return self.is_parked and any(reason.kind == "budget" for reason in self.reasons)

    def wake(self) -> None:
        self.parked_on, self.parked_until = "", None


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
        self._limits = _Limits(fleet.rules, self._now)
        self._retries = _Retries(fleet.retries)
        self._routes: list[_Route] = []
        self._by_kind: dict[Kind, _Route] = {}
        self._ready: dict[int, _Route] = {}
        self._parked: defaultdict[str, set[int]] = defaultdict(set)
        self._turns: dict[str, float] = {}
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
            self.runs[piece].stopped_by_budget = route.out_of_budget
            if not route.is_parked:
                self._ready[route.number] = route
        return len(arrived)

    def _route_of(self, kind: Kind) -> _Route:
        route = self._by_kind.get(kind)
        if route is None:
            rank = self._fleet.phase_ranks.get(kind.phase, len(self._fleet.phase_ranks))
            route = self._by_kind[kind] = _Route(len(self._routes), kind, self._now, rank)
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
                self._ready[number] = route

    def _start_what_may(self) -> int:
        """Decide on as many routes as there is room for; on more only while room would stay empty."""
        started, times = 0, 1
        self._look_at = None
        while self._idle and self._ready:
            ready = len(self._ready)
            chosen = self._in_turn(times)
            if not chosen:
                break
            granted = self._act_on(admit(self._snapshot(chosen)))
            started += granted
            if len(chosen) == ready:
                break
            times *= MORE if granted < len(chosen) else 1
        return started

    @property
    def _idle(self) -> int:
        return self._fleet.slots - len(self._ends)

    def _in_turn(self, times: int) -> list[_Route]:
        """The routes whose turn it is: of each lane `times` as many as its fleet and phase have room
        for, and those of great age; none of a lane without room."""
        lanes: defaultdict[Lane, list[_Route]] = defaultdict(list)
        for route in self._ready.values():
            lanes[route.lane].append(route)
        chosen: dict[int, _Route] = {}
        for lane, routes in lanes.items():
            at_most = times * self._room_of(lane)
            some = _first(at_most, routes, self._turn_of(routes))
            if at_most and self._aged_since:
                aged = [r for r in routes if r.waiting[0][0] < self._aged_since]
                some += _first(at_most, aged, lambda route: route.waiting[0][0])
            chosen |= {route.number: route for route in some}
        return list(chosen.values())

    def _turn_of(self, routes: list[_Route]) -> Callable[[_Route], tuple[float, datetime]]:
        """The order of turns: the tenants', as each is served in its share, then the routes'."""
        if not self._fleet.ordering.shares or not any(route.tenant for route in routes):
            return lambda route: (0.0, route.served_at)
        here, turns = self._turns.get(LAST_TURN, 0.0), dict[str, float]()
        order: dict[int, float] = {}
        for route in sorted(routes, key=lambda route: route.served_at):
            turn = turns.get(route.tenant, max(here, self._turns.get(route.tenant, here)))
            order[route.number] = turn
            turns[route.tenant] = turn + route.kind.weight / self._limits.share(route.tenant)
        return lambda route: (order[route.number], route.served_at)

    def _room_of(self, lane: Lane) -> int:
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

    def _snapshot(self, chosen: Iterable[_Route]) -> Snapshot:
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
            gates={name: Gate(clocks[name]) for name in names if name in clocks},
            ordering=self._fleet.ordering,
            retries=self._retries.room(self._now) if retrying else None,
            turns=self._turns,
        )

    def _act_on(self, decision: Decision) -> int:
        self._turns.update(decision.turns)
        for number in decision.starts:
            self._start(self._routes[number])
        for number, reasons in decision.reasons.items():
            self._stop(self._routes[number], reasons)
        return len(decision.starts)

    def _start(self, route: _Route) -> None:
        _, piece = route.waiting.pop(0)
        route.served_at = self.runs[piece].started_at = self._now
        self._limits.start(route.kind)
        self._retries.start(route.kind)
        attempt = self._recorded.pieces[piece].attempt
        heapq.heappush(self._ends, (self._now + attempt.ran, piece))
        if not route.waiting:
            self._ready.pop(route.number, None)

    def _stop(self, route: _Route, reasons: tuple[Reason, ...]) -> None:
        route.park(reasons)
        if not route.waiting or not route.is_parked:
            return
        self._ready.pop(route.number, None)
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


def _first(at_most: int, routes: list[_Route], key: Callable[[_Route], Any]) -> list[_Route]:
    return routes if len(routes) <= at_most else heapq.nsmallest(at_most, routes, key=key)


def _taken(heap: list[tuple[datetime, int]], now: datetime) -> Iterator[int]:
    """What is due by now, taken off the heap."""
    while heap and heap[0][0] <= now:
        yield heapq.heappop(heap)[1]
