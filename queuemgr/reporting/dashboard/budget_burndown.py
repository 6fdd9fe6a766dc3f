"""The burn-down of the fleet's budget today, by hour so far and at the rate of the last hour from now on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from queuemgr.flows.flow import all_phases
from queuemgr.reporting.dashboard import trends
from queuemgr.reporting.dashboard.trend_cache import Trends
from queuemgr.reporting.dashboard.trends import HOUR
from queuemgr.reporting.forecast import Budget, budgets
from queuemgr.reporting.remaining_work import RemainingWork
from queuemgr.scheduling.claims import FLEET
from queuemgr.scheduling.decision_input import Snapshot

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Point:
    """Requests left at a moment."""

    at: datetime
    left: int


@dataclass(frozen=True, slots=True)
class Line:
    """The fleet's budget over its day: hour by hour until now, then at the rate of the last hour."""

    past: tuple[Point, ...]
    ahead: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Budgets:
    """The fleet's requests today, in all and by phase, and its budget of them, if it has one."""

    fleet: Budget | None
    line: Line | None
    spent: int
    spent_by_phase: Mapping[str, int]


def budgets_today(
    snapshot: Snapshot, recent: Trends, spent: Mapping[str, int], remaining: RemainingWork
) -> Budgets:
    """The fleet's budget now; `spent` are the requests of today by limit."""
    fleet = next((budget for budget in budgets(snapshot, remaining) if budget.limit == FLEET), None)
    return Budgets(
        fleet=fleet,
        line=_line(fleet, recent) if fleet else None,
        spent=spent.get(FLEET, 0),
        spent_by_phase={phase: spent.get(f"phase:{phase}", 0) for phase in all_phases()},
    )


def _line(budget: Budget, recent: Trends) -> Line:
    """Budget left by hour, computed backwards from now; an attempt counts in the hour it ended."""
    now, ends = recent.now, budget.resets_at or recent.now
    remaining = max(0, budget.budget - budget.spent)
    begins = max(ends - DAY, recent.since)
    first = trends.hour_of(begins) + (HOUR if trends.hour_of(begins) < begins else timedelta())
    hours = (first + n * HOUR for n in range(ceil((now - first) / HOUR)))
    past = [Point(at, min(budget.budget, remaining + trends.cost_since(recent.by_hour, at))) for at in hours]
    here = Point(now, remaining)
    return Line((*past, here), (here, _end(budget, remaining, now, ends)))


def _end(budget: Budget, remaining: int, now: datetime, ends: datetime) -> Point:
    """Where a straight line reaches zero or the end of the day, whichever comes first."""
    hours_left = (ends - now) / HOUR
    if budget.per_hour and remaining / budget.per_hour < hours_left:
        return Point(now + remaining / budget.per_hour * HOUR, 0)
    return Point(ends, max(0, round(remaining - budget.per_hour * hours_left)))
