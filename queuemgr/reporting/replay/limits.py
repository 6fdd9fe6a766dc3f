"""The state of limits during a replay: what the database holds for the scheduler, in memory. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from queuemgr.base.allowance import Allowance
from queuemgr.base.rate import book
from queuemgr.scheduling.claims import RouteKind
from queuemgr.scheduling.decision_input import (
    RETRY_WINDOW,
    LimitRule,
    MeterUsage,
    RetryBudget,
    Usage,
    clock_name,
    debits_of,
    rule_for,
)


class ReplayLimits:
    """Usage, clocks, what is spent by period, and the retry budget, as attempts start and end."""

    def __init__(self, rules: Mapping[str, LimitRule], retry_percent: int) -> None:
        self._configured = dict(rules)
        self.rules: dict[str, LimitRule] = {}
        self._usage: defaultdict[str, Usage] = defaultdict(Usage)
        self._clocks: dict[str, float] = {}
        self._used: Counter[tuple[str, datetime]] = Counter()
        self._retry_percent, self._starts, self._retries = retry_percent, 0, 0
        self._ended: deque[tuple[datetime, bool]] = deque()

    def start(self, kind: RouteKind, now: datetime) -> datetime:
        """Hold its capacity, charge what it uses to the periods of allowances, and book it under its rates;
        returns when it starts."""
        for name, weight in kind.claims:
            rule = self._rule(name)
            self._usage[name].hold(weight, kind.priority)
            for allowance in rule.allowances:
                if not allowance.rolling and (amount := kind.amounts.get(allowance.meter, 0)):
                    starts_at = allowance.period_at(now, rule.budget_zone).starts
                    self._used[clock_name(name, allowance), starts_at] += amount
        self._starts += 1
        self._retries += kind.retrying
        rates = debits_of(self.rules, [name for name, _ in kind.claims], kind.amounts)
        wait = book(self._clocks, rates, now.timestamp()) - now.timestamp() if rates else 0.0
        return now + timedelta(seconds=wait)

    def end(self, kind: RouteKind, now: datetime) -> None:
        for name, weight in kind.claims:
            self._usage[name].hold(-weight, kind.priority, leases=-1)
        self._ended.append((now, kind.retrying))

    def usage(self, names: Iterable[str], now: datetime) -> dict[str, Usage]:
        """Usage of these limits."""
        by_name = {name: self._usage[name] for name in names}
        for name, usage in by_name.items():
            rule = self._rule(name)
            for allowance in rule.allowances:
                self._read(name, rule, allowance, usage.of(allowance), now)
        return by_name

    def _read(
        self, name: str, rule: LimitRule, allowance: Allowance, used: MeterUsage, now: datetime
    ) -> None:
        """What is used of an allowance: of its clock, or of its period."""
        clock = clock_name(name, allowance)
        if allowance.rolling:
            used.clock = self._clocks.get(clock, 0.0)
        else:
            used.spent = self._used[clock, allowance.period_at(now, rule.budget_zone).starts]

    def _rule(self, name: str) -> LimitRule:
        if name not in self.rules:
            self.rules[name] = rule_for(self._configured, name)
        return self.rules[name]

    def retry_budget(self, now: datetime) -> RetryBudget | None:
        """What is left of it, counted as `scheduling.retry_budget` counts."""
        while self._ended and self._ended[0][0] <= now - RETRY_WINDOW:
            self._starts -= 1
            self._retries -= self._ended.popleft()[1]
        return RetryBudget.of(self._retry_percent, self._starts, self._retries, now)
