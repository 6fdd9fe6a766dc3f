"""The burn-down of today's budgets, by hour so far and at the rate of the last hour from now on."""

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
from queuemgr.reporting.throughput import throughput
from queuemgr.scheduling.claims import FLEET
from queuemgr.scheduling.decision_input import Snapshot

SHOWN = 6
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
    """Budgets, the fleet's first and then those nearest their end; and the fleet's requests today, in all
    and by phase, whether it has a budget or not."""

    shown: tuple[Budget, ...]
    others: int
    line: Line | None
    spent: int
    spent_by_phase: Mapping[str, int]

    @property
    def fleet(self) -> Budget | None:
        return next((budget for budget in self.shown if budget.limit == FLEET), None)


def budgets_today(snapshot: Snapshot, recent: Trends, spent: Mapping[str, int]) -> Budgets:
    """The budgets now; `spent` are the requests of today by limit."""
    ranked = sorted(budgets(snapshot, throughput(snapshot.now)), key=_nearest_end_first)
    fleet = next((budget for budget in ranked if budget.limit == FLEET), None)
    return Budgets(
        shown=tuple(ranked[:SHOWN]),
        others=max(0, len(ranked) - SHOWN),
        line=_line(fleet, recent) if fleet else None,
        spent=spent.get(FLEET, 0),
        spent_by_phase={phase: spent.get(f"phase:{phase}", 0) for phase in all_phases()},
    )


def _nearest_end_first(budget: Budget) -> tuple[bool, float, str]:
    return budget.limit != FLEET, -(budget.share_spent + budget.share_reserved), budget.limit


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
