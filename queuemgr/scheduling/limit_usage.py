"""What is used of limits: leases held under them, and requests spent today."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Q

from queuemgr.base import sql
from queuemgr.base.allowance import Allowance
from queuemgr.base.budget_day import day_of
from queuemgr.base.meters import MAX_AMOUNT, REQUESTS, from_text
from queuemgr.models import AllowanceUsage
from queuemgr.scheduling import claims, rate_clocks
from queuemgr.scheduling.claims import names_of
from queuemgr.scheduling.decision_input import LimitRule, MeterUsage, Usage, clock_name, rule_for

Rules = Mapping[str, LimitRule]


class FleetLeases(NamedTuple):
    """Leases that admission counts alike for the whole fleet; `leased_at` only if they use a meter."""

    phase: str
    priority: int
    resources: str
    worker_id: int | None
    leases: int
    weight: int
    cost: int
    uses: str
    spent_uses: str
    unstarted: int
    leased_at: datetime | None


class KeyedLeases(NamedTuple):
    """Leases under one key that admission counts alike; `leased_at` only if they use a meter."""

    name: str
    priority: int
    leases: int
    weight: int
    cost: int
    uses: str
    spent_uses: str
    unstarted: int
    leased_at: datetime | None


_FLEET = """
    SELECT phase, priority, resources, worker_id, COUNT(*), SUM(weight), SUM(cost), uses, spent_uses,
           SUM(CASE WHEN started_at IS NULL THEN 1 ELSE 0 END),
           CASE WHEN cost > 0 OR uses <> '' OR spent_uses <> '' THEN leased_at END AS paid_at
      FROM queuemgr_lease
     GROUP BY phase, priority, resources, worker_id, uses, spent_uses, paid_at
"""

_KEYED = """
    SELECT k.name, l.priority, COUNT(*), SUM(l.weight), SUM(l.cost), l.uses, l.spent_uses,
           SUM(CASE WHEN l.started_at IS NULL THEN 1 ELSE 0 END),
           CASE WHEN l.cost > 0 OR l.uses <> '' OR l.spent_uses <> '' THEN l.leased_at END AS paid_at
      FROM queuemgr_lease l JOIN queuemgr_routelimit k ON k.route_id = l.route_id
     WHERE {condition}
     GROUP BY k.name, l.priority, l.uses, l.spent_uses, paid_at
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
    """What these leases use of the fleet, the phases and the resources."""
    use: defaultdict[str, Usage] = defaultdict(Usage)
    for lease in held:
        for name in names_of(lease.phase, ""):
            count(use[name], lease, rule_for(rules, name), now)
        for resource, weight in claims.resources_in(lease.resources):
            taken = lease._replace(weight=lease.leases * weight)
            count(use[resource], taken, rule_for(rules, resource), now)
    return use


def count(use: Usage, lease: FleetLeases | KeyedLeases, rule: LimitRule, now: datetime) -> None:
    """Add leases to what is used of a limit; their cost only if they were leased on its budget's day."""
    use.hold(int(lease.weight), lease.priority, lease.leases, int(lease.unstarted))
    zone = rule.budget_zone
    if lease.cost and lease.leased_at and day_of(lease.leased_at, zone) == day_of(now, zone):
        use.reserved += int(lease.cost)
    if rule.allowances and lease.leased_at:
        _count_meters(use, lease, rule, lease.leased_at, now)


def _count_meters(
    use: Usage, lease: FleetLeases | KeyedLeases, rule: LimitRule, leased_at: datetime, now: datetime
) -> None:
    """Add what leases hold of the allowances: of a calendar one their estimate or what they have used
    already, whichever is more, if they were leased in its period; of a rolling one the estimates of those
    that have not begun."""
    estimates, spent = from_text(lease.uses), from_text(lease.spent_uses)
    for allowance in rule.allowances:
        meter = allowance.meter
        estimate = int(lease.cost) if meter == REQUESTS else estimates.get(meter, 0) * lease.leases
        if allowance.rolling:
            held = estimate * int(lease.unstarted) // lease.leases
        elif allowance.period_at(now, rule.budget_zone).starts > leased_at:
            continue
        else:
            held = max(estimate, spent.get(meter, 0) * lease.leases)
        if held:
            use.of(allowance).reserved += held


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


class _PeriodSpent(NamedTuple):
    limit: str
    allowance: str
    spent: int


_PERIODS = """
    WITH period(limit_name, allowance, after, until) AS (VALUES {periods})
    SELECT p.limit_name, p.allowance, SUM(u.spent)
      FROM period p JOIN queuemgr_allowanceusage u ON u.limit_name = p.limit_name
       AND u.allowance = p.allowance AND u.starts_at > p.after AND u.starts_at < p.until
     GROUP BY p.limit_name, p.allowance
"""


def add_allowances(use: defaultdict[str, Usage], rules: Rules, names: Iterable[str], now: datetime) -> None:
    """Add what was spent in the periods of the calendar allowances of these limits, and the clocks of their
    rolling ones; only where there are any."""
    stated = [(name, rule) for name in names if (rule := rule_for(rules, name)).allowances]
    if not stated:
        return
    periods: list[Any] = []
    clocks: dict[str, tuple[str, Allowance]] = {}
    for name, rule in stated:
        for allowance in rule.allowances:
            if allowance.rolling:
                clocks[clock_name(name, allowance)] = name, allowance
            else:
                periods += [name, allowance.name, *allowance.counted_at(now, rule.budget_zone)]
    if periods:
        marks = ", ".join([sql.typed("({text}, {text}, {time}, {time})")] * (len(periods) // 4))
        for row in sql.rows(_PeriodSpent, _PERIODS.format(periods=marks), periods):
            use[row.limit].meters.setdefault(row.allowance, MeterUsage()).spent += int(row.spent)
    for clock, at in rate_clocks.read(list(clocks)).items():
        name, allowance = clocks[clock]
        use[name].of(allowance).clock = at


def charge(day: date, limit: str, requests: int) -> None:
    """Add to the requests spent on a day under a limit."""
    sql.run(
        "INSERT INTO queuemgr_dailyusage (day, limit_name, spent) VALUES (%s, %s, %s) "
        "ON CONFLICT (day, limit_name) "
        "DO UPDATE SET spent = queuemgr_dailyusage.spent + excluded.spent",
        [day, limit, requests],
    )


class PeriodCharge(NamedTuple):
    """The period of a calendar allowance of a limit that is charged."""

    limit: str
    allowance: str
    starts_at: datetime


def charge_periods(spent: Mapping[PeriodCharge, int]) -> None:
    """Add to what was spent in these periods, in one order: two of these would deadlock otherwise. No sum is
    above the largest amount, which no allowance exceeds, so that none is too large for its column."""
    if spent:
        sql.run_each(
            "INSERT INTO queuemgr_allowanceusage (limit_name, allowance, starts_at, spent) "
            "VALUES (%s, %s, %s, %s) ON CONFLICT (limit_name, allowance, starts_at) DO UPDATE SET spent = "
            f"CASE WHEN queuemgr_allowanceusage.spent + excluded.spent < {MAX_AMOUNT} "
            f"THEN queuemgr_allowanceusage.spent + excluded.spent ELSE {MAX_AMOUNT} END",
            [(*period, min(amount, MAX_AMOUNT)) for period, amount in sorted(spent.items())],
        )


KEPT = {"second": 2, "minute": 2, "hour": 40, "day": 400, "week": 400, "month": 1200}
"""Days that what was spent in a period is kept, so that it can be looked up; a total counts for ever."""


def prune_periods(now: datetime, most: int) -> int:
    """Delete what was spent in periods of long ago, so many rows of each kind at most; returns how many."""
    deleted = 0
    for period, days in KEPT.items():
        old = AllowanceUsage.objects.filter(
            Q(allowance__endswith=f"/{period}") | Q(allowance__endswith=f"/{period}/calendar"),
            starts_at__lt=now - timedelta(days=days),
        )
        some = list(old.order_by("pk").values_list("pk", flat=True)[:most])
        deleted += AllowanceUsage.objects.filter(pk__in=some).delete()[0] if some else 0
    return deleted
