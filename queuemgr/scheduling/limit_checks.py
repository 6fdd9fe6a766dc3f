"""Which limits stop a route: the test of each kind of limit, and the sentence that says so. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple

from queuemgr.base.allowance import Allowance
from queuemgr.base.meters import STARTS, meter_or_plain
from queuemgr.flows.flow import HIGH
from queuemgr.scheduling.capacity import Capacity
from queuemgr.scheduling.decision_input import (
    CLOSED,
    NO_METER_USE,
    NO_RULE,
    NO_USE,
    BreakerState,
    LimitRule,
    MeterUsage,
    Reason,
    ReasonKind,
    Snapshot,
    Usage,
    WaitingRoute,
    provider_text,
)


class _Reservation(NamedTuple):
    """Capacity reserved for a starved heavy route; binds its priority level and those below."""

    route: int
    rank: int
    text: str


class LimitChecks:
    """The capacity left as starts are granted; it only shrinks, so a refusal stays true until
    `allow_early` lets rates be used ahead of time."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._rule = cache(snapshot.rule)
        self._taken = defaultdict(Usage, {name: use.copy() for name, use in snapshot.use.items()})
        self._granted: Counter[tuple[str, str]] = Counter()
        self._reservations: dict[str, _Reservation] = {}
        self._retries = snapshot.retries.left if snapshot.retries else 0
        self._lead = 0.0
        self.slots = Capacity(snapshot.idle, snapshot.unstarted)

    def blocking_reasons(self, route: WaitingRoute, rank: int) -> tuple[Reason, ...]:
        """Every limit that stops this route; with none, an idle slot is matched with it."""
        stopped = self.limit_reasons(route, rank)
        if not stopped and not self.slots.take(route.slot):
            stopped = (self.no_slot_reason(route),)
        return stopped

    def allow_early(self) -> None:
        """From now on, let a start be granted before its rates allow it, by the policy's lead."""
        self._lead = self._snapshot.ordering.lead

    def limit_reasons(self, route: WaitingRoute, rank: int) -> tuple[Reason, ...]:
        """Every limit that stops this route, workers apart. `rank`: its priority level, as aged."""
        return (*self._pauses(route), *self._limits(route, rank))

    def is_consumed(self, *slots: str) -> bool:
        """Whether one of these slots, as `Capacity` names them, is idle."""
        return any(free > 0 and not group.isdisjoint(slots) for group, free in self._snapshot.idle.items())

    def take(self, route: WaitingRoute) -> None:
        for name, weight in route.claims:
            for meter in self._snapshot.provider.get(name, ()):
                self._granted[name, meter] += route.amounts.get(meter, 0)
            use = self._taken[name]
            use.hold(weight, route.priority, unstarted=1)
            for allowance in self._rule(name).allowances:
                if need := route.amounts.get(allowance.meter):
                    use.of(allowance).reserved += need
        self._retries -= route.retrying

    def reserve(self, route: WaitingRoute, rank: int) -> None:
        """Reserve what is free of the limits that stop a route, if it lacks only their capacity.

        The reservation binds its own priority level and those below; better levels continue.
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
            yield from self._provider(name, route)
            if rule is NO_RULE:
                continue
            yield from _concurrency(name, rule, use, weight, route.priority)
            yield from self._reservation(name, route, rank)
            for allowance in rule.allowances:
                if need := allowance.need(route.amounts):
                    yield from self._allowance(name, rule, allowance, use, need, route.priority)

    def _breaker(self, name: str, state: BreakerState, use: Usage) -> Iterator[Reason]:
        now = self._snapshot.now
        if state.is_open(now):
            yield Reason(name, f"{name} {state.text(now)}", state.open_until, "breaker_open")
        elif state.half_open_starts and use.leases >= state.half_open_starts:
            yield Reason(name, f"{name} {state.text(now)}", None, "half_open")

    def _provider(self, name: str, route: WaitingRoute) -> Iterator[Reason]:
        """What its provider says is left, whatever people allow."""
        for meter, said in self._snapshot.provider.get(name, {}).items():
            left = said._replace(amount=said.amount - self._granted[name, meter])
            if (need := route.amounts.get(meter, 0)) and need > left.amount:
                text = f"{name} {provider_text(meter, left, self._snapshot.now)}"
                yield Reason(name, text, datetime.fromtimestamp(left.until, UTC), "provider")

    def _reservation(self, name: str, route: WaitingRoute, rank: int) -> Iterator[Reason]:
        reserved = self._reservations.get(name)
        if reserved and reserved.route != route.id and rank >= reserved.rank:
            yield Reason(name, f"{name}: {reserved.text}", None, "reserved")

    def _allowance(
        self, name: str, rule: LimitRule, allowance: Allowance, use: Usage, need: int, priority: int
    ) -> Iterator[Reason]:
        used = use.meters.get(allowance.name, NO_METER_USE)
        if need > allowance.usable(priority):
            yield _never(name, allowance, need, priority, self._snapshot.now)
        elif allowance.rolling:
            pending = use.unstarted if allowance.meter == STARTS else used.reserved
            ahead = used.clock - self._snapshot.now.timestamp()
            wait = allowance.wait(ahead, pending, need, priority)
            yield from self._rolling(name, allowance, ahead, pending, wait)
        elif used.spent + used.reserved + need > allowance.usable(priority):
            ends = allowance.period_at(self._snapshot.now, rule.budget_zone).ends
            yield Reason(name, _period_text(name, allowance, used, priority, ends), ends, "budget")

    def _rolling(
        self, name: str, allowance: Allowance, ahead: float, pending: int, wait: float
    ) -> Iterator[Reason]:
        if wait > self._lead + 1e-6:
            until = self._snapshot.now + timedelta(seconds=wait)
            kind: ReasonKind = "rate" if allowance.meter == STARTS else "allowance"
            sentence = f"{name}{_level_text(allowance, ahead, pending)} next in {wait:.1f} s"
            yield Reason(name, sentence, until, kind, self._snapshot.ordering.lead)

    def no_slot_reason(self, route: WaitingRoute) -> Reason:
        if any(route.slot in group for group in self._snapshot.idle):
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


def _level_text(allowance: Allowance, ahead: float, pending: int) -> str:
    """` tokens 29,800 of 30,000 per minute,`; nothing of starts, whose next one says it all."""
    if allowance.meter == STARTS:
        return ""
    text = meter_or_plain(allowance.meter).text
    level = f"{text(allowance.level(ahead) + pending)} of {text(allowance.burst)}"
    return f" {allowance.meter} {level} per {allowance.each},"


UNKNOWN_RECHECK = timedelta(seconds=30)
"""When to look again at work that uses a meter which only a newer release knows."""


def _never(name: str, allowance: Allowance, need: int, priority: int, now: datetime) -> Reason:
    text = meter_or_plain(allowance.meter).text
    if not allowance.known:
        sentence = f"{name} has an allowance of {allowance.meter}, which this release does not know"
        return Reason(name, sentence, now + UNKNOWN_RECHECK, "budget")
    most = text(allowance.usable(priority))
    sentence = f"{name}: uses {text(need)} {allowance.meter}, more than its allowance of {most} can ever hold"
    return Reason(name, sentence, None, "budget")


def _period_text(
    name: str, allowance: Allowance, used: MeterUsage, priority: int, ends: datetime | None
) -> str:
    """`tenant:acme usd 19.80 of 20.00 per day spent and 0.15 reserved, resets 2026-03-01 00:00 UTC`."""
    text = meter_or_plain(allowance.meter).text
    held = f" and {text(used.reserved)} reserved" if used.reserved else ""
    last = allowance.amount - allowance.usable(priority)
    above = f", the last {text(last)} reserved for higher priority" if last else ""
    each = "in total" if ends is None else f"per {allowance.period}"
    resets = f", resets {ends:%Y-%m-%d %H:%M} UTC" if ends else ""
    return (
        f"{name} {allowance.meter} {text(used.spent)} of {text(allowance.amount)} {each} spent{held}{above}"
        f"{resets}"
    )
