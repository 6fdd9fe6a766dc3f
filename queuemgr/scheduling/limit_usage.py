"""What is used of limits: leases held under them, and what was spent in the periods of allowances.

Use of every meter is counted by day under every limit, whatever that allows: an allowance of days, weeks or
months that is stated later counts what was used in its period before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any, NamedTuple

from django.db.models import Q

from queuemgr.base import sql, sql_lists
from queuemgr.base.allowance import Allowance
from queuemgr.base.limit_shorthand import DAILY_BUDGET
from queuemgr.base.meters import MAX_AMOUNT, REQUESTS, STARTS, Amounts, from_text
from queuemgr.models import AllowanceUsage
from queuemgr.models.workers import live_span
from queuemgr.scheduling import allowance_clocks, claims
from queuemgr.scheduling.allowance_clocks import ClockRow
from queuemgr.scheduling.claims import names_of
from queuemgr.scheduling.decision_input import LimitRule, Usage, clock_name, rule_for

Rules = Mapping[str, LimitRule]


class FleetLeases(NamedTuple):
    """Leases that admission counts alike for the whole fleet; `leased_at` only if they use a meter."""

    phase: str
    priority: int
    resources: str
    is_async: bool
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
    SELECT phase, priority, resources, is_async, worker_id, COUNT(*), SUM(weight), SUM(cost), uses,
           spent_uses,
           SUM(CASE WHEN started_at IS NULL THEN 1 ELSE 0 END),
           CASE WHEN cost > 0 OR uses <> '' OR spent_uses <> '' THEN leased_at END AS paid_at
      FROM queuemgr_lease
     GROUP BY phase, priority, resources, is_async, worker_id, uses, spent_uses, paid_at
"""

_KEYED = """
    SELECT k.name, l.priority, COUNT(*), SUM(l.weight), SUM(l.cost), l.uses, l.spent_uses,
           SUM(CASE WHEN l.started_at IS NULL THEN 1 ELSE 0 END),
           CASE WHEN l.cost > 0 OR l.uses <> '' OR l.spent_uses <> '' THEN l.leased_at END AS paid_at
      FROM queuemgr_lease l JOIN queuemgr_routelimit k ON k.route_id = l.route_id
     WHERE {condition}
     GROUP BY k.name, l.priority, l.uses, l.spent_uses, paid_at
"""


_WORKERS = """
    SELECT '', 0, CAST(queues AS text), FALSE, id, slots, async_slots, 0, '', '', 0, CAST(NULL AS timestamptz)
      FROM queuemgr_worker
     WHERE seen_at > %s AND seen_at < %s AND draining_at IS NULL
       AND NOT EXISTS (SELECT 1 FROM queuemgr_workerdrain d WHERE d.name = queuemgr_worker.name)
"""
"""In the columns of leases, without a phase, which no lease is."""


class WorkerSlots(NamedTuple):
    """A worker that takes work, and its slots."""

    id: int
    queues: str
    slots: int
    async_slots: int


def fleet_leases(now: datetime) -> tuple[list[FleetLeases], list[WorkerSlots]]:
    """The leases of the fleet, and its workers, of one moment."""
    held, workers = list[FleetLeases](), list[WorkerSlots]()
    for row in sql.rows(FleetLeases, f"{_FLEET} UNION ALL {_WORKERS}", live_span(now)):
        if row.phase:
            held.append(row)
        else:
            workers.append(WorkerSlots(row.worker_id or 0, row.resources, row.leases, int(row.weight)))
    return held, workers


def keyed_leases(names: Collection[str] | None) -> list[KeyedLeases]:
    """The leases under these keys; None: under every key."""
    if names is None:
        return sql.rows(KeyedLeases, _KEYED.format(condition="1 = 1"))
    among = sql_lists.among("text", names)
    return sql.rows(KeyedLeases, _KEYED.format(condition=f"k.name {among.text}"), among.values)


class UsageCount:
    """Adds leases up to what is used of each limit, by the rules of one moment."""

    def __init__(self, use: Mapping[str, Usage], rules: Rules, now: datetime) -> None:
        self.use = defaultdict(Usage, use)
        self._allowances = cache(partial(_periods_begun, rules, now))

    def add_fleet(self, held: Iterable[FleetLeases]) -> None:
        """What these leases use of the fleet, the phases and the resources."""
        for lease in held:
            for name in names_of(lease.phase, ""):
                self.add(name, lease)
            for resource, weight in claims.resources_in(lease.resources):
                self.add(resource, lease._replace(weight=lease.leases * weight))

    def add(self, limit: str, lease: FleetLeases | KeyedLeases) -> None:
        use = self.use[limit]
        use.hold(int(lease.weight), lease.priority, lease.leases, int(lease.unstarted))
        if lease.leased_at and (allowances := self._allowances(limit)):
            _count_meters(use, lease, allowances, lease.leased_at)


_Begun = tuple[tuple[Allowance, datetime | None], ...]
"""Allowances, and when the period of each calendar one began."""


def _periods_begun(rules: Rules, now: datetime, limit: str) -> _Begun:
    rule = rule_for(rules, limit)
    return tuple(
        (each, None if each.rolling else each.period_at(now, rule.budget_zone).starts)
        for each in rule.allowances
        if each.meter != STARTS  # counted as leases that have not begun
    )


def _count_meters(
    use: Usage, lease: FleetLeases | KeyedLeases, allowances: _Begun, leased_at: datetime
) -> None:
    """Add what leases hold of the allowances: of a calendar one their estimate or what they have used
    already, whichever is more, if they were leased in its period; of a rolling one the estimates of those
    that have not begun."""
    for allowance, period_began in allowances:
        estimate, spent = int(lease.cost), 0
        if (meter := allowance.meter) != REQUESTS:
            estimate = from_text(lease.uses).get(meter, 0) * lease.leases
            spent = from_text(lease.spent_uses).get(meter, 0) * lease.leases
        if period_began is None:
            held = estimate * int(lease.unstarted) // lease.leases
        elif period_began > leased_at:
            continue
        else:
            held = max(estimate, spent)
        if held:
            use.of(allowance).reserved += held


_PERIODS = """
    WITH period(limit_name, name, counted_by, after, until) AS ({periods})
    SELECT CAST(NULL AS bigint), p.name, 0.0, 0.0, CAST(0 AS bigint), '', 0.0,
           CAST(NULL AS timestamptz), CAST(SUM(u.spent) AS bigint)
      FROM period p JOIN queuemgr_allowanceusage u ON u.limit_name = p.limit_name
       AND u.allowance = p.counted_by AND u.starts_at > p.after AND u.starts_at < p.until
     GROUP BY p.name, p.counted_by
"""

_PERIOD_KINDS = ("text", "text", "text", "timestamptz", "timestamptz")


def _counted(name: str, rule: LimitRule, allowance: Allowance, now: datetime) -> Iterator[tuple[Any, ...]]:
    """Which rows count for a calendar allowance: its own, and of weeks and months those of the days in it,
    which were counted before it was stated."""
    clock = clock_name(name, allowance)
    yield (name, clock, allowance.name, *allowance.counted_at(now, rule.budget_zone))
    if allowance.period in ("week", "month"):
        starts, ends = allowance.period_at(now, rule.budget_zone)
        days = rule.day_of(allowance.meter).name
        yield name, clock, days, starts - timedelta(microseconds=1), ends


def add_allowances(use: defaultdict[str, Usage], rules: Rules, names: Iterable[str], now: datetime) -> None:
    """Add what was spent in the periods of the calendar allowances of these limits, and the clocks of their
    rolling ones, in one statement; only where there are any."""
    stated: dict[str, tuple[str, Allowance]] = {}
    periods: list[tuple[Any, ...]] = []
    clocks: list[str] = []
    for limit in names:
        rule = rule_for(rules, limit)
        for allowance in rule.allowances:
            name = clock_name(limit, allowance)
            stated[name] = limit, allowance
            if allowance.rolling:
                clocks.append(name)
            else:
                periods += _counted(limit, rule, allowance, now)
    if not stated:
        return
    rows = _used_of(periods, clocks)
    for row in rows:
        if row.spent is not None:
            limit, allowance = stated[row.name]
            used = use[limit].of(allowance)
            used.spent = max(used.spent, row.spent)
    settled = allowance_clocks.settled(row for row in rows if row.spent is None)
    for name, at in settled.items():
        limit, allowance = stated[name]
        use[limit].of(allowance).clock = at.at_pace(allowance.interval, now.timestamp()).clock


def _used_of(periods: Sequence[tuple[Any, ...]], clocks: Sequence[str]) -> list[ClockRow]:
    """What was spent in these periods, by names as those of clocks, and these clocks."""
    parts: list[str] = []
    values: list[Any] = []
    if periods:
        listed = sql_lists.table(_PERIOD_KINDS, periods)
        parts, values = [_PERIODS.format(periods=listed.text)], listed.values
    if clocks:
        read = allowance_clocks.all_of(clocks)
        parts, values = [*parts, read.text], [*values, *read.values]
    return sql.rows(ClockRow, " UNION ALL ".join(parts), values)


class PeriodCharge(NamedTuple):
    """The period of a calendar allowance of a limit that is charged."""

    limit: str
    allowance: str
    starts_at: datetime


def charged(limit: str, rule: LimitRule, used: Amounts, at: datetime) -> Iterator[tuple[PeriodCharge, int]]:
    """What is charged to a limit for a lease granted at a moment: to the day, and to its other periods."""
    for meter, amount in used.items():
        day = rule.day_of(meter)
        yield PeriodCharge(limit, day.name, day.period_at(at, rule.budget_zone).starts), amount
    for each in rule.allowances:
        if not each.rolling and (each.period != "day") and (amount := used.get(each.meter, 0)):
            yield PeriodCharge(limit, each.name, each.period_at(at, rule.budget_zone).starts), amount


def charge_periods(spent: Mapping[PeriodCharge, int]) -> None:
    """Add to what was spent in these periods, in one order: two of these would deadlock otherwise. No sum is
    above the largest amount, which no allowance exceeds, so that none is too large for its column."""
    rows = [(*period, min(amount, MAX_AMOUNT)) for period, amount in sorted(spent.items())]
    for some in sql_lists.tables(_CHARGE_KINDS, rows):
        sql.run(_CHARGE.format(rows=some.text), some.values)


_CHARGE_KINDS = ("text", "text", "timestamptz", "bigint")
_CHARGE = f"""
    INSERT INTO queuemgr_allowanceusage (limit_name, allowance, starts_at, spent) {{rows}}
    ON CONFLICT (limit_name, allowance, starts_at) DO UPDATE SET spent =
      CASE WHEN queuemgr_allowanceusage.spent + excluded.spent < {MAX_AMOUNT}
      THEN queuemgr_allowanceusage.spent + excluded.spent ELSE {MAX_AMOUNT} END
"""


def requests_today(rules: Rules, names: Iterable[str], now: datetime) -> dict[str, int]:
    """The requests spent today under each of these limits, on the day of each, whether it has a budget or
    not."""
    today = {name: rule_for(rules, name).day_at(now).starts for name in names}
    rows = AllowanceUsage.objects.filter(
        limit__in=today, allowance=DAILY_BUDGET, starts_at__in={*today.values()}
    )
    found = rows.values_list("limit", "starts_at", "spent")
    return {name: spent for name, starts, spent in found if starts == today[name]}


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
