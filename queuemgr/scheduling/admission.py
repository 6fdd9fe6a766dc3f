"""What starts now, and why each other thing waits: one pure decision over every limit at once.

No database, no clock, no Celery: `admit(snapshot)` can be tested with generated cases, explained to
a person and replayed on old data. A start must pass every limit on its route. The order: priority
level, raised by aging; resumed before new; phase rank; the tenant with the lowest virtual time; the
route served longest ago; age.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Literal, NamedTuple, Self

from queuemgr.base.rate import Rate
from queuemgr.flows.flow import HIGH, LOW
from queuemgr.scheduling.capacity import Capacity, Group
from queuemgr.scheduling.claims import FLEET, RouteKind, rule_name

__all__ = ["FLEET", "admit"]


@dataclass(frozen=True, kw_only=True)
class WaitingRoute(RouteKind):
    """Waiting work of one kind, as admission sees it.

    `due` counts its executions that may start now, no further than there are idle slots; `overdue` those
    of them that waited beyond the starvation time; `head_at` is when the first fell or falls due (None:
    nothing waits, or all of it is beyond the windows of its batches); `stored_head` is what its row says of
    that, and `timer_due` whether its parking timer has expired.
    """

    id: int
    due: int
    head_at: datetime | None
    served_at: datetime
    phase_rank: int = 0
    overdue: int = 0
    beyond_window: bool = False
    stored_head: datetime | None = None
    timer_due: bool = False

    @property
    def is_empty(self) -> bool:
        return self.head_at is None and not self.beyond_window

    def waited(self, now: datetime) -> timedelta:
        """How long its first execution has been due; zero if none is."""
        return now - self.head_at if self.head_at and self.due else timedelta()


@dataclass(frozen=True, slots=True)
class LimitRule:
    """The values of one limit; 0 or None is no limit. `paused` is a sentence, or empty.

    The last `reserved_for_high` requests of the daily budget are for high-priority work only;
    low-priority work stops `blocked_for_low` requests before its end. `share` weighs a tenant
    against others.
    """

    max_running: int = 0
    reserved_high: int = 0
    rate: Rate | None = None
    daily_budget: int | None = None
    reserved_for_high: int = 0
    blocked_for_low: int = 0
    budget_zone: str = "UTC"
    day_ends: datetime | None = None
    share: int = 1
    breaker_after: int = 10
    paused: str = ""
    paused_until: datetime | None = None

    def usable_budget(self, priority: int) -> int:
        """Requests work of this priority may bring the day's total to."""
        reserved = 0 if priority == HIGH else self.reserved_for_high
        if priority == LOW:
            reserved = max(reserved, self.blocked_for_low)
        return (self.daily_budget or 0) - reserved


@dataclass(slots=True)
class Usage:
    """What is used of a limit: leases and their weights, leases not started yet, and requests."""

    running: int = 0
    below_high: int = 0
    spent: int = 0
    reserved: int = 0
    leases: int = 0
    unstarted: int = 0

    def hold(self, weight: int, priority: int, leases: int = 1, unstarted: int = 0) -> None:
        """Count leases of this priority and total weight; negative numbers release them."""
        self.running += weight
        self.below_high += weight if priority != HIGH else 0
        self.leases += leases
        self.unstarted += unstarted


@dataclass(frozen=True, slots=True)
class BreakerState:
    """The rate clock and the circuit breaker of a limit, as the results of steps left them.

    `rate_clock` is in Unix seconds. The breaker is open (nothing starts) until `open_until`, then
    half-open (`half_open_starts` may run at once); with neither it is closed (work flows).
    """

    rate_clock: float = 0.0
    open_until: datetime | None = None
    open_reason: str = ""
    half_open_starts: int = 0

    def is_open(self, now: datetime) -> bool:
        return self.open_until is not None and self.open_until > now

    def is_half_open(self, now: datetime) -> bool:
        return self.half_open_starts > 0 and not self.is_open(now)


RETRY_AFTER = "Retry-After"
"""Marks an `open_reason` that is a wait the service asked for."""


def open_text(until: str, reason: str) -> str:
    """`throttled until TIME (429, Retry-After 9 s)`, or `breaker open until TIME: REASON`."""
    if RETRY_AFTER in reason:
        return f"throttled until {until} ({reason})"
    return f"breaker open until {until}: {reason}"


def half_open_text(starts: int, reason: str) -> str:
    after = f" after {reason}" if reason else ""
    return f"breaker half-open{after}: {starts:,} at a time"


@dataclass(frozen=True, slots=True)
class SchedulingPolicy:
    """How long work waits before its priority level is aged by one (`starvation`), and before capacity
    is reserved for work heavier than what is free (`heavy_wait`); None: never. Without `shares` there is
    no fair share between tenants."""

    starvation: timedelta | None = None
    heavy_wait: timedelta | None = None
    shares: bool = True


ReasonKind = Literal[
    "capacity", "never", "rate", "budget", "paused", "breaker_open", "half_open", "reserved", "retries",
    "workers", "run_after", "batch_window",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reason:
    """One limit that stopped a route, in a sentence, and the earliest time that could change."""

    limit: str
    text: str
    until: datetime | None = None
    kind: ReasonKind = "capacity"


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """How many more retries may start now, and the sentence when none may."""

    left: int
    text: str = ""
    until: datetime | None = None

    @classmethod
    def of(cls, percent: int, starts: int, retries: int, now: datetime) -> Self | None:
        """What is left when so many of a window's starts were retries; None without such a limit."""
        if percent >= 100:
            return None
        allowed = max(RETRIES_ALWAYS_ALLOWED, starts * percent // 100)
        text = (
            f"retry budget: {retries} of the last {starts} starts were retries, "
            f"{percent} % may be; retries go on as other work starts"
        )
        return cls(max(0, allowed - retries), text, now + RETRY_RECHECK)


RETRY_WINDOW = timedelta(minutes=5)
RETRIES_ALWAYS_ALLOWED = 100
"""Retries a window may have whatever their share."""

RETRY_RECHECK = timedelta(seconds=5)


@dataclass(frozen=True)
class Snapshot:
    """All that admission looks at, read in one transaction under the scheduler lock.

    `fully_parked`: the queues, and whether for resumed work or for new, on which every route is parked.
    """

    now: datetime
    routes: tuple[WaitingRoute, ...]
    rules: Mapping[str, LimitRule]
    use: Mapping[str, Usage]
    paused_queues: Mapping[str, Reason]
    idle: Mapping[Group, int]
    unstarted: Mapping[str, int]
    breaker_states: Mapping[str, BreakerState] = field(default_factory=dict)
    ordering: SchedulingPolicy = SchedulingPolicy()
    retries: RetryBudget | None = None
    virtual_times: Mapping[str, float] = field(default_factory=dict)
    fully_parked: frozenset[tuple[str, bool]] = frozenset()

    def rule(self, name: str) -> LimitRule:
        """The rule of a limit: its own, else that of the longest pattern that matches, else none."""
        return rule_for(self.rules, name)


GLOBAL_VIRTUAL_TIME = "virtual_time"
"""Key in `virtual_times`: the virtual time of the tenant served last when it was served."""

NO_RULE, NO_USE, CLOSED = LimitRule(), Usage(), BreakerState()


def rule_for(rules: Mapping[str, LimitRule], name: str) -> LimitRule:
    """The rule of a limit: its own, else that of the longest pattern that matches, else none."""
    row = rule_name(name, rules)
    return rules[row] if row else NO_RULE


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
        """The earliest time at which a reason given here ends by itself."""
        times = (reason.until for stopped in self.reasons.values() for reason in stopped)
        return min((until for until in times if until), default=None)


def admit(snapshot: Snapshot) -> Decision:
    """Decide what starts now. Cost: routes plus starts, each times the log of the routes."""
    capacity, order = _Capacity(snapshot), _Order(snapshot)
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
    capacity = _Capacity(snapshot)
    found: dict[str, tuple[Reason, ...]] = {}
    for phase, priority in queues:
        probe = WaitingRoute(
            id=0, phase=phase, priority=priority, resumed=True, limit_keys="", cost=0, weight=1, due=1,
            head_at=snapshot.now, served_at=snapshot.now,
        )  # fmt: skip
        stopped = capacity.limit_reasons(probe, priority)
        if not stopped and not capacity.is_consumed(probe.queue):
            stopped = (capacity.no_slot_reason(probe),)
        found[probe.queue] = stopped
    return found


def _not_due(route: WaitingRoute) -> Reason:
    if route.head_at is None:
        return Reason("batch_window", "waits for its batch window", None, "batch_window")
    text = f"due at {route.head_at:%Y-%m-%d %H:%M:%S} UTC"
    return Reason("run_after", text, route.head_at, "run_after")


class _RouteRank(NamedTuple):
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


def _reserve_for_heavy(routes: Iterable[WaitingRoute], capacity: _Capacity, order: _Order) -> None:
    """Reserve capacity for heavy routes that waited long, in the order in which they would start."""
    starved = [r for r in routes if order.is_starved_heavy(r) and capacity.is_consumed(r.queue)]
    for route in sorted(starved, key=order.sort_key):
        capacity.reserve(route, order.rank(route))


class _Order:
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
        """Has heavy work waited so long that it is first on its priority level, with capacity reserved?"""
        patience = self._ordering.heavy_wait
        if patience is None or self._served[route.id]:
            return False
        return route.is_heavy and route.waited(self._now) > patience

    def sort_key(self, route: WaitingRoute) -> _RouteRank:
        aged = self._aging_steps(route) > 0 or self.is_starved_heavy(route)
        return _RouteRank(
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

    def is_outdated(self, key: _RouteRank, route: WaitingRoute) -> bool:
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


class _Reservation(NamedTuple):
    """Capacity reserved for a starved heavy route; binds its priority level and those below."""

    route: int
    rank: int
    text: str


class _Capacity:
    """The capacity left as starts are granted; it only shrinks, so a refusal stays true."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._now = snapshot.now.timestamp()
        self._rule = cache(snapshot.rule)
        self._taken = defaultdict(Usage, {name: replace(use) for name, use in snapshot.use.items()})
        self._reservations: dict[str, _Reservation] = {}
        self._retries = snapshot.retries.left if snapshot.retries else 0
        self.slots = Capacity(snapshot.idle, snapshot.unstarted)

    def blocking_reasons(self, route: WaitingRoute, rank: int) -> tuple[Reason, ...]:
        """Every limit that stops this route; with none, an idle slot is matched with it."""
        stopped = self.limit_reasons(route, rank)
        if not stopped and not self.slots.take(route.queue):
            stopped = (self.no_slot_reason(route),)
        return stopped

    def limit_reasons(self, route: WaitingRoute, rank: int) -> tuple[Reason, ...]:
        """Every limit that stops this route, workers apart. `rank`: its priority level, as aged."""
        return (*self._pauses(route), *self._limits(route, rank))

    def is_consumed(self, queue: str) -> bool:
        return any(queue in group and slots > 0 for group, slots in self._snapshot.idle.items())

    def take(self, route: WaitingRoute) -> None:
        for name, weight in route.claims:
            use = self._taken[name]
            use.hold(weight, route.priority, unstarted=1)
            use.reserved += route.cost
        self._retries -= route.retrying

    def reserve(self, route: WaitingRoute, rank: int) -> None:
        """Reserve what is free of the limits that stop a route, if it lacks only their capacity.

        The reservation binds its own priority level and those below; better levels go on.
        """
        stopped = self.limit_reasons(route, rank)
        if not all(reason.kind == "capacity" for reason in stopped):
            return
        since = f"{route.head_at:%H:%M:%S} UTC"
        text = f"capacity reserved for work of weight {route.weight} that waits since {since}"
        for reason in stopped:
            self._reservations.setdefault(reason.limit, _Reservation(route.id, rank, text))

    def _pauses(self, route: WaitingRoute) -> Iterator[Reason]:
        """What stops it whatever is used: pauses, and a retry budget that is spent."""
        queue = self._snapshot.paused_queues.get(route.queue)
        if queue:
            yield queue
        for name, _ in route.claims:
            rule = self._rule(name)
            if rule.paused:
                yield Reason(name, f"{name} {rule.paused}", rule.paused_until, "paused")
        budget = self._snapshot.retries
        if route.retrying and budget and self._retries < 1:
            yield Reason("retries", budget.text, budget.until, "retries")

    def _limits(self, route: WaitingRoute, rank: int) -> Iterator[Reason]:
        for name, weight in route.claims:
            rule, use = self._rule(name), self._taken.get(name, NO_USE)
            state = self._snapshot.breaker_states.get(name, CLOSED)
            yield from self._breaker(name, state, use)
            if rule is NO_RULE:
                continue
            yield from _concurrency(name, rule, use, weight, route.priority)
            yield from self._reservation(name, route, rank)
            if rule.rate:
                yield from self._rate(name, rule.rate, state, use)
            yield from _budget(name, rule, use, route)

    def _breaker(self, name: str, state: BreakerState, use: Usage) -> Iterator[Reason]:
        if state.open_until and state.is_open(self._snapshot.now):
            text = open_text(f"{state.open_until:%H:%M:%S} UTC", state.open_reason)
            yield Reason(name, f"{name} {text}", state.open_until, "breaker_open")
        elif state.half_open_starts and use.leases >= state.half_open_starts:
            text = half_open_text(state.half_open_starts, state.open_reason)
            yield Reason(name, f"{name} {text}", None, "half_open")

    def _reservation(self, name: str, route: WaitingRoute, rank: int) -> Iterator[Reason]:
        reserved = self._reservations.get(name)
        if reserved and reserved.route != route.id and rank >= reserved.rank:
            yield Reason(name, f"{name}: {reserved.text}", None, "reserved")

    def _rate(self, name: str, rate: Rate, state: BreakerState, use: Usage) -> Iterator[Reason]:
        wait = rate.wait(state.rate_clock - self._now, use.unstarted)
        if wait > 1e-6:
            until = self._snapshot.now + timedelta(seconds=wait)
            yield Reason(name, f"{name} next in {wait:.1f} s", until, "rate")

    def no_slot_reason(self, route: WaitingRoute) -> Reason:
        if any(route.queue in group for group in self._snapshot.idle):
            text = f"every slot of the workers on {route.queue} is busy"
        else:
            text = f"no live worker consumes {route.queue}"
        return Reason("workers", text, None, "workers")


def _concurrency(name: str, rule: LimitRule, use: Usage, weight: int, priority: int) -> Iterator[Reason]:
    """`>=` blocks, so a limit lowered while busy only drains; below high, the reserve is unavailable."""
    most, for_all = rule.max_running, rule.max_running - rule.reserved_high
    if not most:
        return
    ever = most if priority == HIGH else for_all
    if weight > ever:
        reserve = "" if ever == most else f" with {rule.reserved_high} of {most} reserved"
        text = f"{name}: takes {weight}, more than its cap of {ever} can ever hold{reserve}"
        yield Reason(name, text, None, "never")
    elif use.running + weight > most:
        over = use.running - most
        note = f", over its cap by {over}" if over > 0 else ""
        needs = f", needs {weight}" if weight > 1 and not note else ""
        yield Reason(name, f"{name} {use.running}/{most}{note}{needs}")
    elif priority != HIGH and use.below_high + weight > for_all:
        text = f"{name} {use.below_high}/{for_all} for work below high, {rule.reserved_high} reserved"
        yield Reason(name, text)


def _budget(name: str, rule: LimitRule, use: Usage, route: WaitingRoute) -> Iterator[Reason]:
    if rule.daily_budget is None or not route.cost:
        return
    usable = rule.usable_budget(route.priority)
    if route.cost > usable:
        text = f"{name}: costs {route.cost}, more than its budget of {usable} can ever hold"
        yield Reason(name, text, None, "budget")
    elif use.spent + use.reserved + route.cost > usable:
        held = f" and {use.reserved} reserved" if use.reserved else ""
        last = rule.daily_budget - usable
        above = f", the last {last} reserved for higher priority" if last else ""
        spent = f"{name} budget {use.spent}/{rule.daily_budget} spent{held}{above}"
        text = f"{spent}, resets 00:00 {rule.budget_zone}"
        yield Reason(name, text, rule.day_ends, "budget")
