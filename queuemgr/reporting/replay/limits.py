"""Limits as a replay keeps them while its time goes by: use, days, clocks, the share of retries. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from queuemgr.base.budget_day import day_ends
from queuemgr.flows.flow import HIGH
from queuemgr.reporting.replay.recording import RouteKey
from queuemgr.scheduling.admission import LimitRule, RetryBudget, Usage, rule_for

MANY = 1_000_000


@dataclass(frozen=True)
class RetryShare:
    """At most so many percent of the starts of a window may be retries; `always` whatever the share."""

    percent: int = 100
    window: timedelta = timedelta(minutes=5)
    always: int = 20


class Limits:
    """The rules of limits, what stands against them, and their clocks, as time goes by."""

    def __init__(self, rules: Mapping[str, LimitRule], now: datetime) -> None:
        self._stated = rules
        self.rules: dict[str, LimitRule] = {}
        self.use: defaultdict[str, Usage] = defaultdict(Usage)
        self.clocks: dict[str, float] = {}
        self._day_ends: dict[str, datetime] = {}
        self._day_began: dict[str, datetime] = {}
        self._now = now

    def know(self, kind: RouteKey) -> None:
        """Find the rules of a kind of work once, so that no decision looks through patterns."""
        for name, _ in kind.claims:
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

    def start(self, kind: RouteKey) -> None:
        for name, weight in kind.claims:
            self._weigh(name, kind, weight, 1)
            self.use[name].reserved += kind.cost
            rate = self.rules[name].rate
            if rate:
                now = self._now.timestamp()
                self.clocks[name] = max(self.clocks.get(name, 0.0), now) + rate.interval

    def end(self, kind: RouteKey, started_at: datetime) -> None:
        """Give room back; what was reserved is spent, on the day it was reserved against."""
        for name, weight in kind.claims:
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

    def _weigh(self, name: str, kind: RouteKey, weight: int, leases: int) -> None:
        use = self.use[name]
        use.running += weight
        use.below_high += weight if kind.priority != HIGH else 0
        use.leases += leases


class Retries:
    """The share of retries among the starts of the last minutes."""

    def __init__(self, share: RetryShare) -> None:
        self._share = share
        self._ended: deque[tuple[datetime, bool]] = deque()
        self._retries = self._running = 0

    def start(self, kind: RouteKey) -> None:
        self._running += 1
        self._retries += kind.retrying

    def end(self, kind: RouteKey, now: datetime) -> None:
        self._running -= 1
        self._ended.append((now, kind.retrying))

    def room(self, now: datetime) -> RetryBudget | None:
        if self._share.percent >= 100:
            return None
        while self._ended and self._ended[0][0] <= now - self._share.window:
            self._retries -= self._ended.popleft()[1]
        starts = self._running + len(self._ended)
        most = max(self._share.always, starts * self._share.percent // 100)
        again = now + timedelta(seconds=5)
        return RetryBudget(max(0, most - self._retries), "retry budget", again)
