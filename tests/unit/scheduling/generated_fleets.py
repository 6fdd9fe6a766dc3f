"""Snapshots made at random, and what stops a start by a plain reading of the rules.

This repeats no production code: it counts everything again, for one route, at one moment.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from itertools import product
from random import Random

from hypothesis import strategies as st

from queuemgr.base.allowance import Allowance, parse_allowance
from queuemgr.base.limit_shorthand import RATE, daily_budget, starts
from queuemgr.base.rate import Rate
from queuemgr.flows.flow import HIGH, LOW, PRIORITY_NAMES, async_queue, queue_name
from queuemgr.scheduling.capacity import async_group_of, either, group_of
from queuemgr.scheduling.decision_input import (
    GLOBAL_VIRTUAL_TIME,
    BreakerState,
    LimitRule,
    MeterUsage,
    Reason,
    RetryBudget,
    SchedulingPolicy,
    Snapshot,
    Usage,
    WaitingRoute,
)

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
PHASES = ("prep", "expensive", "wrap")
QUEUES = [queue_name(phase, rank) for phase in PHASES for rank in PRIORITY_NAMES]
SENT = [*QUEUES, *map(async_queue, QUEUES)]
SLOTS = (
    lambda queues: group_of(queues, has_async=False),
    lambda queues: group_of(queues, has_async=True),
    async_group_of,
)
"""Of a worker without async slots; of one that has such: its other slots, and these."""

KEYS = ("", "host:a", "host:b", "tenant:x", "host:a tenant:x", "host:b tenant:y")
RESOURCES = ("", "", "cpu=1", "cpu=2 memory=1")
NAMES = (
    "fleet", *(f"phase:{phase}" for phase in PHASES), "host:a", "host:b", "host:*", "tenant:x",
    "tenant:y", "cpu", "memory",
)  # fmt: skip
STARVATION, HEAVY_WAIT = timedelta(seconds=100), timedelta(seconds=60)

small = st.integers(0, 6)
ages = st.integers(0, 350).map(lambda seconds: NOW - timedelta(seconds=seconds))
_random = Random(20260504)


ALLOWANCES = [
    parse_allowance(text)
    for text in (
        "4 tokens/day", "9 tokens/day rolling high 25%", "6 tokens/minute",
        "7 tokens/minute calendar low 50%",
        "0.000005 usd/month", "3 usd/day", "5 requests/hour",
    )
]  # fmt: skip
USES_OF_METERS = ("", "", "tokens=1", "tokens=3 usd=2")


def _meter_usage(allowance: Allowance) -> MeterUsage:
    reserved = _random.choice((0, 0, 1, 3))
    if not allowance.rolling:
        return MeterUsage(_random.choice((0, 0, 1, 4)), reserved)
    seconds = _random.choice((-50.0, 0.0, 4.9, 40.0, 100.0)) * allowance.interval
    return MeterUsage(0, reserved, NOW.timestamp() + seconds)


def _budget() -> Iterable[Allowance]:
    if _random.choice((True, False)):
        high, low = _random.choice((0, 25, 50)), _random.choice((0, 40))
        yield Allowance("requests", _random.randint(0, 12), "day", high=high, low=low)


def _rule() -> LimitRule:
    most = _random.randint(0, 6)
    rate = Rate(_random.choice((0.5, 10.0, 100 / 3)), _random.randint(1, 4))
    return LimitRule(
        max_running=most,
        reserved_high=_random.randint(0, max(0, most - 1)),
        share=_random.randint(1, 3),
        allowances=(
            *_random.choice(((), (starts(rate),))),
            *_budget(),
            *_random.sample(ALLOWANCES, _random.choice((0, 0, 1, 2, 3))),
        ),
        paused=_random.choice(("",) * 7 + ("paused by x",)),
    )


def _use() -> Usage:
    below, high, leases = (_random.randint(0, 6) for _ in range(3))
    unstarted = _random.randint(0, min(3, leases))
    meters = {each.name: _meter_usage(each) for each in _random.sample([*ALLOWANCES, daily_budget(9)], 4)}
    ahead = _random.choice((-50.0, 0.0, 0.25, 10.0, 31.0))
    meters[RATE] = MeterUsage(clock=NOW.timestamp() + ahead)
    return Usage(below + high, below, leases, unstarted, meters)


RULES = st.sampled_from(
    [LimitRule(), *(LimitRule(most) for most in range(1, 7)), *(_rule() for _ in range(300))]
)
USES = st.sampled_from([Usage(), *(_use() for _ in range(300))])
"""Drawn from tables, simple ones first: drawing each number takes a hundred times as long."""

BREAKER_STATES = st.builds(
    BreakerState,
    st.sampled_from((None, None, None, NOW - timedelta(seconds=9), NOW + timedelta(hours=1))),
    st.just("429"),
    st.sampled_from((0, 0, 1, 2, 4)),
)
KINDS = list(
    product(
        PHASES, sorted(PRIORITY_NAMES), (False, True), KEYS, range(4), range(1, 4), RESOURCES,
        (False, False, True), USES_OF_METERS, (False, True),
    )
)  # fmt: skip


@st.composite
def routes(draw: st.DrawFn) -> tuple[WaitingRoute, ...]:
    chosen = draw(st.lists(st.integers(0, len(KINDS) - 1), max_size=9, unique=True))
    return tuple(_route(draw, number, *KINDS[kind]) for number, kind in enumerate(chosen, start=1))


def _route(
    draw: st.DrawFn, number: int, phase: str, priority: int, resumed: bool, keys: str, cost: int,
    weight: int, resources: str, retrying: bool, uses: str, is_async: bool,
) -> WaitingRoute:  # fmt: skip
    due, head = draw(small), draw(ages)
    waited_long = bool(due) and NOW - head > STARVATION
    return WaitingRoute(
        phase, priority, resumed, keys, cost, weight, resources, retrying, uses, is_async,
        id=number, due=due, head_at=head, served_at=draw(ages), phase_rank=PHASES.index(phase),
        overdue=1 + (NOW - head).seconds % due if waited_long else 0,
    )  # fmt: skip


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    queues = st.frozensets(st.sampled_from(QUEUES), min_size=1) | st.just(frozenset(QUEUES))
    idle = st.dictionaries(
        st.builds(lambda of, made: made(of), queues, st.sampled_from(SLOTS)),
        st.integers(0, 6), max_size=4,
    )  # fmt: skip
    names = st.sampled_from(NAMES)
    paused = st.sets(st.sampled_from(QUEUES), max_size=1)
    return Snapshot(
        now=NOW,
        routes=draw(routes()),
        rules=draw(st.dictionaries(names, RULES, max_size=6)),
        use=draw(st.dictionaries(names, USES, max_size=6)),
        paused_queues={q: Reason(q, f"{q} paused by x", None, "paused") for q in draw(paused)},
        idle=draw(idle),
        unstarted=draw(st.dictionaries(st.sampled_from(SENT), st.integers(0, 3), max_size=3)),
        breaker_states=draw(st.dictionaries(names, BREAKER_STATES, max_size=3)),
        ordering=draw(
            st.builds(
                SchedulingPolicy,
                st.sampled_from((None, STARVATION)),
                st.sampled_from((None, HEAVY_WAIT)),
                st.booleans(),
            )
        ),
        retries=draw(st.none() | st.builds(RetryBudget, st.integers(0, 3), st.just("retry budget"))),
        virtual_times=draw(
            st.dictionaries(st.sampled_from(("tenant:x", GLOBAL_VIRTUAL_TIME)), st.floats(0, 5))
        ),
    )


class Standing:
    """What counts against every limit at the start of a decision, and after each of its starts."""

    def __init__(self, seen: Snapshot, starts: Iterable[int] = ()) -> None:
        self.seen = seen
        self.total: defaultdict[str, Usage] = defaultdict(Usage)
        for name, u in seen.use.items():
            self.total[name] = deepcopy(u)
        self.routes = {route.id: route for route in seen.routes}
        self.retried = 0
        self.started: Counter[int] = Counter()
        for start in starts:
            self.add(self.routes[start])

    def add(self, route: WaitingRoute) -> None:
        self.started[route.id] += 1
        self.retried += route.retrying
        for name, weight in route.claims:
            use = self.total[name]
            use.running += weight
            use.below_high += weight * (route.priority != HIGH)
            use.leases += 1
            use.unstarted += 1
            for allowance in rule_of(self.seen, name).allowances:
                used = use.meters.setdefault(allowance.name, MeterUsage())
                used.reserved += needs(route).get(allowance.meter, 0)

    def stops(self, route: WaitingRoute) -> set[tuple[str, str]]:
        """Every limit that stops one more start, with the kind of reason; workers and reservations apart."""
        found = {("retries", "retries")} if self._no_retry(route) else set[tuple[str, str]]()
        if route.queue in self.seen.paused_queues:
            found.add((route.queue, "paused"))
        for name, weight in route.claims:
            found |= {(name, kind) for kind in self._kinds(name, weight, route)}
        return found

    def _no_retry(self, route: WaitingRoute) -> bool:
        budget = self.seen.retries
        return route.retrying and budget is not None and self.retried >= budget.left

    def _kinds(self, name: str, weight: int, route: WaitingRoute) -> Iterable[str]:
        rule, use = rule_of(self.seen, name), self.total[name]
        breaker = self.seen.breaker_states.get(name, BreakerState())
        below_high = route.priority != HIGH
        if rule.paused:
            yield "paused"
        if breaker.open_until and breaker.open_until > NOW:
            yield "breaker_open"
        elif breaker.half_open_starts and use.leases + 1 > breaker.half_open_starts:
            yield "half_open"
        full = use.running + weight > rule.max_running
        reserved = use.below_high + weight > rule.max_running - rule.reserved_high
        ever = rule.max_running - (rule.reserved_high if below_high else 0)
        if rule.max_running and weight > ever:
            yield "never"
        elif rule.max_running and (full or (below_high and reserved)):
            yield "capacity"
        if rule.rate and not self.conforms(name, rule.rate, one_more=1):
            yield "rate"
        yield from self._of_allowances(rule, use, route)

    def _of_allowances(self, rule: LimitRule, use: Usage, route: WaitingRoute) -> Iterable[str]:
        for allowance in rule.allowances:
            if allowance.meter == "starts":
                continue
            need, used = needs(route).get(allowance.meter), use.meters.get(allowance.name, MeterUsage())
            if not need:
                continue
            most = allowance.burst if allowance.rolling else allowance.amount
            percent = {HIGH: 0, LOW: max(allowance.low, allowance.high)}.get(route.priority, allowance.high)
            usable = most - most * percent // 100
            refilling = (
                max(0.0, used.clock - NOW.timestamp()) / allowance.interval if allowance.rolling else 0
            )
            if need > usable:
                yield "budget"
            elif used.spent + refilling + used.reserved + need > usable + 1e-3:
                yield "allowance" if allowance.rolling else "budget"

    def conforms(self, name: str, rate: Allowance, one_more: int = 0) -> bool:
        """Did all leases not begun begin now, would the last of them conform?"""
        clock = max(self.seen.use.get(name, Usage()).of(rate).clock, NOW.timestamp())
        before_the_last = self.total[name].unstarted + one_more - 1
        return clock - NOW.timestamp() + before_the_last * rate.interval <= (
            (rate.burst - 1) * rate.interval + 1e-5
        )

    def rank(self, route: WaitingRoute) -> int:
        """Its priority level, aged, for its next start."""
        starvation = self.seen.ordering.starvation
        started = self.started[route.id]
        if starvation is None or not route.due or (started and started >= route.overdue):
            return route.priority
        return max(HIGH, route.priority - (NOW - route.head_at) // starvation)

    def is_aged(self, route: WaitingRoute) -> bool:
        return self.rank(route) < route.priority

    def goes_by_age(self, route: WaitingRoute) -> bool:
        """Is it first on its priority level for its next start, the older before the younger?"""
        return self.is_aged(route) or (not self.started[route.id] and self._heavy_and_old(route))

    def _heavy_and_old(self, route: WaitingRoute) -> bool:
        patience = self.seen.ordering.heavy_wait
        heavy = any(weight > 1 for _, weight in route.claims)
        return heavy and patience is not None and NOW - route.head_at > patience

    def reservations(self) -> dict[str, list[WaitingRoute]]:
        """Heavy work that waited long and lacks nothing but capacity, by the limits it lacks it of."""
        reserved: defaultdict[str, list[WaitingRoute]] = defaultdict(list)
        for route in self.seen.routes:
            stops = self.stops(route)
            consumed = any(slot_of(route) in group and n for group, n in self.seen.idle.items())
            if (
                route.due
                and consumed
                and self._heavy_and_old(route)
                and {kind for _, kind in stops} == {"capacity"}
            ):
                for limit, _ in stops:
                    reserved[limit].append(route)
        return reserved


def needs(route: WaitingRoute) -> dict[str, int]:
    parts = (part.split("=") for part in route.uses.split())
    return {"requests": route.cost, **{meter: int(amount) for meter, amount in parts}}


def rule_of(seen: Snapshot, name: str) -> LimitRule:
    """The rule of a name: its own, else of the pattern `host:*`, the only one generated."""
    pattern = "host:*" if name.startswith("host:") else ""
    return seen.rules.get(name) or seen.rules.get(pattern) or LimitRule()


def slot_of(route: WaitingRoute) -> str:
    """What a start of it may take."""
    return either(route.queue) if route.is_async else route.queue


def matchable(seen: Snapshot, queues: Iterable[str]) -> int:
    """How many leases that take these idle slots can have at most (Kuhn 1955)."""
    slots = [group for group, count in seen.idle.items() for _ in range(count)]
    taken_by: dict[int, str] = {}

    def place(queue: str, tried: set[int]) -> bool:
        for number, group in enumerate(slots):
            if queue in group and number not in tried:
                tried.add(number)
                if number not in taken_by or place(taken_by[number], tried):
                    taken_by[number] = queue
                    return True
        return False

    return sum(place(queue, set()) for queue in queues)
