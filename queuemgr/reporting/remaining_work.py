"""What remaining work is expected to use of each limit, and how fast limits were used lately.

Read where a limit has an allowance only. The step that waiting work waits for is counted by the index that
admission uses, and what follows it (`later_steps`) by a few executions that stand for all; of what was used,
the attempts of the last hour are added up, no more than are read for other measured rates.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from queuemgr.base import sql
from queuemgr.base.meters import amounts_of
from queuemgr.reporting import allowances, later_steps
from queuemgr.reporting.allowance_forecast import Forecast, Need, forecast
from queuemgr.reporting.allowances import AllowanceStatus
from queuemgr.reporting.amounts_sql import ATTEMPTS, USES_ANY, each_amount, summed
from queuemgr.reporting.later_steps import LaterUse
from queuemgr.reporting.throughput import HOUR, MAX_ATTEMPTS, MIN_WINDOW
from queuemgr.scheduling import limit_usage
from queuemgr.scheduling.claims import names_of
from queuemgr.scheduling.decision_input import NO_USE, LimitRule, Snapshot, Usage, rule_for

OfMeter = tuple[str, str]
"""A limit, and a meter."""

Needs = Mapping[OfMeter, Sequence[Need]]


@dataclass(frozen=True)
class RemainingWork:
    """By limit and meter, what is to come; and what was used in so many seconds up to `now`."""

    now: datetime
    needs: Needs = field(default_factory=dict)
    used: Mapping[OfMeter, int] = field(default_factory=dict)
    seconds: float = 0.0

    def with_more(self, needs: Needs) -> RemainingWork:
        """As if this waited, too."""
        both = {of: [*self.needs.get(of, ()), *needs.get(of, ())] for of in {**self.needs, **needs}}
        return replace(self, needs=both)

    def by_limit(self, snapshot: Snapshot) -> Iterator[tuple[str, list[AllowanceStatus]]]:
        """Each limit that has allowances and is in use, waited for or has a row of its own, by name."""
        rows = (name for name in snapshot.rules if not name.endswith("*"))
        for name in sorted({*rows, *snapshot.use, *(limit for limit, _ in self.needs)}):
            if found := self.statuses(name, snapshot.rule(name), snapshot.use.get(name, NO_USE)):
                yield name, found

    def statuses(self, limit: str, rule: LimitRule, use: Usage) -> list[AllowanceStatus]:
        """The allowances of one limit, with their forecasts."""
        found = allowances.statuses(rule.allowances, use, rule.budget_zone, self.now)
        return [replace(each, forecast=self._of(limit, rule, each)) for each in found]

    def _of(self, limit: str, rule: LimitRule, status: AllowanceStatus) -> Forecast:
        of = limit, status.allowance.meter
        pace = self.used.get(of, 0) / self.seconds if self.seconds else 0.0
        used = status.used + status.reserved
        return forecast(status.allowance, used, self.needs.get(of, ()), pace, rule.budget_zone, self.now)


def remaining_work(
    rules: Mapping[str, LimitRule], now: datetime, later: Sequence[LaterUse] | None = None
) -> RemainingWork:
    """What is to come under these rules, where they have allowances. `later`: what follows the steps of now,
    if that is known."""
    if not any(rule.allowances for rule in rules.values()):
        return RemainingWork(now)
    used, seconds = _used_lately(now)
    later = later_steps.of_remaining_work(now) if later is None else later
    return RemainingWork(now, needs_of(rules, [*_waiting(), *_later(later)]), used, seconds)


def with_used_of(limit: str, rule: LimitRule, use: Usage, now: datetime) -> Usage:
    """With what was used of allowances that a rule would have and the limit has not: it is kept of every kind
    there ever was. What runs has reserved nothing of them."""
    read: defaultdict[str, Usage] = defaultdict(Usage)
    limit_usage.add_allowances(read, {limit: rule}, [limit], now)
    return replace(use.copy(), meters={**read[limit].meters, **use.meters})


_WAITING = """
    SELECT phase, priority, limit_keys, cost, uses, SUM(executions) FROM (
        SELECT r.phase, r.priority, r.limit_keys, r.cost, r.uses,
               (SELECT COUNT(*) FROM queuemgr_execution e
                 WHERE e.route_id = r.id AND e.state = 'waiting') AS executions
          FROM queuemgr_route r WHERE r.cost > 0 OR r.uses <> '') AS waiting
     WHERE executions > 0 GROUP BY phase, priority, limit_keys, cost, uses
"""


class Waiting(NamedTuple):
    """Executions that wait, or will wait, for steps which pass the same limits and use the same amounts."""

    phase: str
    priority: int
    limit_keys: str
    cost: int
    uses: str
    executions: int


def _waiting() -> Iterable[Waiting]:
    return sql.rows(Waiting, _WAITING)


def _later(uses: Iterable[LaterUse]) -> Iterator[Waiting]:
    for use, priority, executions in uses:
        number = max(1, round(executions))
        yield Waiting(use.phase, priority, use.limit_keys, use.cost, use.uses, number)


def needs_of(rules: Mapping[str, LimitRule], waiting: Iterable[Waiting]) -> Needs:
    """What this work needs of the limits that have an allowance of the meter."""
    needs: defaultdict[OfMeter, Counter[tuple[int, int]]] = defaultdict(Counter)
    for row in waiting:
        amounts = amounts_of(row.cost, row.uses)
        for name in names_of(row.phase, row.limit_keys):
            meters = {allowance.meter for allowance in rule_for(rules, name).allowances}
            for meter in meters & amounts.keys():
                needs[name, meter][row.priority, amounts[meter]] += int(row.executions)
    return {of: [Need(*kind, number) for kind, number in some.items()] for of, some in needs.items()}


_LATELY = """
    SELECT phase, limit_keys, cost, uses, ended_at FROM queuemgr_attempt
     WHERE ended_at > %s ORDER BY ended_at DESC LIMIT %s
"""
_FIRST = f"SELECT MIN(ended_at) FROM ({_LATELY}) AS lately"
_USED = f"""
    SELECT a.phase, a.limit_keys, m.key, {{sum}} FROM ({_LATELY}) AS a, {{amounts}} m
     WHERE {USES_ANY} GROUP BY a.phase, a.limit_keys, m.key
"""


class _First(NamedTuple):
    at: datetime | None


class _Used(NamedTuple):
    phase: str
    limit_keys: str
    meter: str
    amount: int


def _used_lately(now: datetime) -> tuple[dict[OfMeter, int], float]:
    """What attempts of the last hour used, by limit and meter, and in how many seconds."""
    window = [now - HOUR, MAX_ATTEMPTS]
    (first,) = sql.rows(_First, _FIRST, window)
    if first.at is None:
        return {}, 0.0
    used: Counter[OfMeter] = Counter()
    statement = _USED.format(sum=summed("CAST(m.value AS numeric)"), amounts=each_amount())
    for row in sql.rows(_Used, statement, window):
        if row.meter != ATTEMPTS:
            used.update({(name, row.meter): int(row.amount) for name in names_of(row.phase, row.limit_keys)})
    return dict(used), max(MIN_WINDOW, now - first.at).total_seconds()
