"""What is used of limits: leases held under them, and requests spent today."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime
from typing import NamedTuple

from queuemgr.base import sql
from queuemgr.base.budget_day import day_of
from queuemgr.scheduling import claims
from queuemgr.scheduling.claims import names_of
from queuemgr.scheduling.decision_input import LimitRule, Usage, rule_for

Rules = Mapping[str, LimitRule]


class FleetLeases(NamedTuple):
    """Leases that admission counts alike for the whole fleet; `leased_at` only if they cost requests."""

    phase: str
    priority: int
    tokens: str
    worker_id: int | None
    leases: int
    weight: int
    cost: int
    unstarted: int
    leased_at: datetime | None


class KeyedLeases(NamedTuple):
    """Leases under one key that admission counts alike; `leased_at` only if they cost requests."""

    name: str
    priority: int
    leases: int
    weight: int
    cost: int
    unstarted: int
    leased_at: datetime | None


_FLEET = """
    SELECT phase, priority, tokens, worker_id, COUNT(*), SUM(weight), SUM(cost),
           SUM(CASE WHEN started_at IS NULL THEN 1 ELSE 0 END),
           CASE WHEN cost > 0 THEN leased_at END AS paid_at
      FROM queuemgr_lease
     GROUP BY phase, priority, tokens, worker_id, paid_at
"""

_KEYED = """
    SELECT k.name, l.priority, COUNT(*), SUM(l.weight), SUM(l.cost),
           SUM(CASE WHEN l.started_at IS NULL THEN 1 ELSE 0 END),
           CASE WHEN l.cost > 0 THEN l.leased_at END AS paid_at
      FROM queuemgr_lease l JOIN queuemgr_routelimit k ON k.route_id = l.route_id
     WHERE {condition}
     GROUP BY k.name, l.priority, paid_at
"""

_SPENT = """
    SELECT day, limit_name, spent FROM queuemgr_dailyusage
     WHERE day IN ({days}) AND limit_name IN ({names})
"""


def fleet_leases() -> list[FleetLeases]:
    return sql.rows(FleetLeases, _FLEET)


def keyed_leases(names: Collection[str] | None) -> list[KeyedLeases]:
    """The leases under these keys; None: under every key."""
    if names is None:
        return sql.rows(KeyedLeases, _KEYED.format(condition="1 = 1"))
    condition = f"k.name IN ({sql.marks(len(names))})"
    return sql.rows(KeyedLeases, _KEYED.format(condition=condition), list(names))


def usage_by_fleet(held: Iterable[FleetLeases], rules: Rules, now: datetime) -> defaultdict[str, Usage]:
    """What these leases use of the fleet, the phases and the tokens."""
    use: defaultdict[str, Usage] = defaultdict(Usage)
    for lease in held:
        for name in names_of(lease.phase, ""):
            count(use[name], lease, rule_for(rules, name), now)
        for token, weight in claims.tokens_in(lease.tokens):
            taken = lease._replace(weight=lease.leases * weight)
            count(use[token], taken, rule_for(rules, token), now)
    return use


def count(use: Usage, lease: FleetLeases | KeyedLeases, rule: LimitRule, now: datetime) -> None:
    """Add leases to what is used of a limit; their cost only if they were leased on its budget's day."""
    use.hold(int(lease.weight), lease.priority, lease.leases, int(lease.unstarted))
    zone = rule.budget_zone
    if lease.cost and lease.leased_at and day_of(lease.leased_at, zone) == day_of(now, zone):
        use.reserved += int(lease.cost)


class _Spent(NamedTuple):
    day: date
    limit: str
    spent: int


def add_spent(use: defaultdict[str, Usage], rules: Rules, names: Iterable[str], now: datetime) -> None:
    """Add what was spent today, in the zone of each of these limits; only where there is a budget."""
    budgets = {n: rule for n in names if (rule := rule_for(rules, n)).daily_budget is not None}
    today = {name: day_of(now, rule.budget_zone) for name, rule in budgets.items()}
    if not today:
        return
    days = sorted(set(today.values()))
    statement = _SPENT.format(days=sql.marks(len(days)), names=sql.marks(len(today)))
    for row in sql.rows(_Spent, statement, [*days, *today]):
        if row.day == today[row.limit]:
            use[row.limit].spent += row.spent


def charge(day: date, limit: str, requests: int) -> None:
    """Add to the requests spent on a day under a limit."""
    sql.run(
        "INSERT INTO queuemgr_dailyusage (day, limit_name, spent) VALUES (%s, %s, %s) "
        "ON CONFLICT (day, limit_name) "
        "DO UPDATE SET spent = queuemgr_dailyusage.spent + excluded.spent",
        [day, limit, requests],
    )
