"""What a scheduling decision looks at: waiting routes, rules and usage of limits, breakers. Pure data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Literal, Self

from queuemgr.base.allowance import Allowance, Period
from queuemgr.base.drawn import Drawn
from queuemgr.base.limit_shorthand import DAILY_BUDGET, RATE
from queuemgr.base.meters import REQUESTS, STARTS, Amounts, meter_or_plain
from queuemgr.base.provider_left import Left
from queuemgr.base.time_text import moment_text
from queuemgr.flows.flow import HIGH
from queuemgr.scheduling.capacity import Group
from queuemgr.scheduling.claims import RouteKind, rule_name


@dataclass(frozen=True, kw_only=True)
class WaitingRoute(RouteKind):
    """Waiting work of one kind, as admission sees it.

    `due` counts its executions that may start now, as far as `counted_to`: one more than there are idle
    slots; `overdue` those of them that waited beyond the starvation time; `head_at` is when the first fell or
    falls due (None: nothing waits, or all of it is beyond the windows of its batches); `next_at` when the
    first falls due that is not yet; `stored_head` is what its row says of its head, and `timer_due` whether
    its parking timer has expired.
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
    counted_to: int = 0
    next_at: datetime | None = None

    @property
    def is_empty(self) -> bool:
        return self.head_at is None and not self.beyond_window

    def waited(self, now: datetime) -> timedelta:
        """How long its first execution has been due; zero if none is."""
        return now - self.head_at if self.head_at and self.due else timedelta()


@dataclass(frozen=True, slots=True)
class LimitRule:
    """The values of one limit; 0 is no limit. `paused` is a sentence, or empty.

    `allowances` are those it states and what its rate and its daily budget stand for; `budget_zone` is where
    the days of those are that name no zone. `share` weighs a tenant against others.
    """

    max_running: int = 0
    reserved_high: int = 0
    share: int = 1
    breaker_after: int = 10
    budget_zone: str = "UTC"
    allowances: tuple[Allowance, ...] = ()
    paused: str = ""
    paused_until: datetime | None = None

    @property
    def rate(self) -> Allowance | None:
        """Starts over time."""
        return next((each for each in self.allowances if each.name == RATE), None)

    @property
    def budget(self) -> Allowance | None:
        """Requests a day."""
        return next((each for each in self.allowances if each.name == DAILY_BUDGET), None)

    def day_of(self, meter: str) -> Allowance:
        """The days by which use of a meter is counted, whatever is allowed of it."""
        name = f"{meter}/day"
        return next((each for each in self.allowances if each.name == name), None) or _any_day(meter)

    def day_at(self, moment: datetime) -> Period:
        """The day by which requests are counted."""
        return self.day_of(REQUESTS).period_at(moment, self.budget_zone)


@lru_cache(maxsize=1000)
def _any_day(meter: str) -> Allowance:
    return Allowance(meter, 0, "day")


@dataclass(slots=True)
class MeterUsage:
    """What is used of one allowance: of its period if it is a calendar one, `spent` and `reserved` by leases;
    of a rolling one its `clock` (Unix seconds), and what is `reserved` by leases that have not begun."""

    spent: int = 0
    reserved: int = 0
    clock: float = 0.0


NO_METER_USE = MeterUsage()


@dataclass(slots=True)
class Usage:
    """What is used of a limit: leases and their weights, leases not started yet, and what is used of its
    allowances by their names."""

    running: int = 0
    below_high: int = 0
    leases: int = 0
    unstarted: int = 0
    meters: dict[str, MeterUsage] = field(default_factory=dict)

    def copy(self) -> Usage:
        meters = {name: replace(used) for name, used in self.meters.items()} if self.meters else {}
        return replace(self, meters=meters)

    def of(self, allowance: Allowance) -> MeterUsage:
        return self.meters.setdefault(allowance.name, MeterUsage())

    def budget(self) -> MeterUsage:
        """What is used of the daily budget; nothing where there is none."""
        return self.meters.get(DAILY_BUDGET, NO_METER_USE)

    def start_wait(self, allowances: Iterable[Allowance], now: datetime) -> float:
        """Seconds until those of starts among these allow the next one, with what has not begun yet."""
        ahead = {name: used.clock - now.timestamp() for name, used in self.meters.items()}
        rates = [each for each in allowances if each.meter == STARTS]
        return max((rate.wait(ahead.get(rate.name, 0.0), self.unstarted, 1) for rate in rates), default=0.0)

    def hold(self, weight: int, priority: int, leases: int = 1, unstarted: int = 0) -> None:
        """Count leases of this priority and total weight; negative numbers release them."""
        self.running += weight
        self.below_high += weight if priority != HIGH else 0
        self.leases += leases
        self.unstarted += unstarted


@dataclass(frozen=True, slots=True)
class BreakerState:
    """The circuit breaker of a limit, as the results of steps left it.

    It is open (nothing starts) until `open_until`, then half-open (`half_open_starts` may run at once); with
    neither it is closed (work flows). `provider_left` is what its provider says is left, as its row has it.
    """

    open_until: datetime | None = None
    open_reason: str = ""
    half_open_starts: int = 0
    provider_left: str = ""

    def is_open(self, now: datetime) -> bool:
        return self.open_until is not None and self.open_until > now

    def is_half_open(self, now: datetime) -> bool:
        return self.half_open_starts > 0 and not self.is_open(now)

    def text(self, now: datetime) -> str:
        """Until when and why the breaker is open, or that it is half-open; empty when it is closed."""
        if self.open_until and self.is_open(now):
            return open_text(moment_text(self.open_until, now), self.open_reason)
        if self.half_open_starts:
            return half_open_text(self.half_open_starts, self.open_reason)
        return ""


RETRY_AFTER = "Retry-After"
"""Marks an `open_reason` that is a wait the service asked for."""


def open_text(until: str, reason: str) -> str:
    """`throttled until TIME (429, Retry-After 9 s)`, or `breaker open until TIME: REASON`."""
    if RETRY_AFTER in reason:
        return f"throttled until {until} ({reason})"
    return f"breaker open until {until}: {reason}"


def provider_text(meter: str, left: Left, now: datetime) -> str:
    """`tokens: 200 left by the provider until 12:00:03 UTC`."""
    until = moment_text(datetime.fromtimestamp(left.until, UTC), now)
    if left.reason:
        return f"{meter}: throttled until {until} ({left.reason})"
    amount = meter_or_plain(meter).text(max(0, left.amount))
    return f"{meter}: {amount} left by the provider until {until}"


def half_open_text(starts: int, reason: str) -> str:
    after = f" after {reason}" if reason else ""
    return f"breaker half-open{after}: {starts:,} at a time"


@dataclass(frozen=True, slots=True)
class SchedulingPolicy:
    """How long work waits before its priority level is aged by one (`starvation`), and before capacity
    is reserved for work heavier than what is free (`heavy_wait`); None: never. Without `shares` there is
    no fair share between tenants. `lead` is how many seconds before a rate allows it a start may be
    granted, to a slot that nothing else needs now."""

    starvation: timedelta | None = None
    heavy_wait: timedelta | None = None
    shares: bool = True
    lead: float = 0.0


ReasonKind = Literal[
    "capacity", "never", "rate", "allowance", "provider", "budget", "paused", "breaker_open", "half_open",
    "reserved", "retries", "workers", "drained", "run_after", "batch_window",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reason:
    """One limit that stopped a route, in a sentence, and the earliest time that could change.

    `lead`: seconds before that time from which a decision may grant the start.
    """

    limit: str
    text: str
    until: datetime | None = None
    kind: ReasonKind = "capacity"
    lead: float = 0.0

    @property
    def wake_at(self) -> datetime | None:
        """When it may end by the passage of time alone, as far as a decision is concerned."""
        return self.until - timedelta(seconds=self.lead) if self.until else None


def opens_at(reasons: Iterable[Reason]) -> datetime | None:
    """When all of these may have ended by the passage of time alone; None if one ends with an event."""
    times = [reason.wake_at for reason in reasons]
    return max((moment for moment in times if moment), default=None) if all(times) else None


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
            f"{percent} % may be; retries continue as other work starts"
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
    `provider`: what providers say is left, by limit and meter.
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
    provider: Mapping[str, Mapping[str, Left]] = field(default_factory=dict)

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


def clock_name(limit: str, allowance: Allowance) -> str:
    """The name of a rolling allowance's clock."""
    return f"{limit} {allowance.name}"


def debits_of(rules: Mapping[str, LimitRule], names: Iterable[str], amounts: Amounts) -> dict[str, Drawn]:
    """What a start that uses these amounts takes of the clocks of these limits, by the clocks' names."""
    debits: dict[str, Drawn] = {}
    for name in names:
        for allowance in rule_for(rules, name).allowances:
            if allowance.rolling and (amount := allowance.need(amounts)):
                debits[clock_name(name, allowance)] = Drawn(allowance, amount)
    return debits
