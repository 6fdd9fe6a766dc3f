"""The burn-down of today's budgets, by hour so far and at the rate of the last hour from now on. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from queuemgr.reporting.dashboard import trends
from queuemgr.reporting.dashboard.trends import HOUR, Buckets
from queuemgr.reporting.forecast import Budget
from queuemgr.scheduling.claims import FLEET

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


def nearest_end_first(budget: Budget) -> tuple[bool, float, str]:
    """Sort key: the fleet's budget, then those nearest their end."""
    return budget.limit != FLEET, -(budget.share_spent + budget.share_reserved), budget.limit


def line(budget: Budget, buckets: Buckets, now: datetime, since: datetime) -> Line:
    """The fleet's line; `buckets` hold requests by hour, from `since` on.

    Computed backwards from what is left now, so its end is exact; an attempt counts in the hour it ended,
    which for one running at midnight is the day after the one it was charged to.
    """
    ends = budget.resets_at or now
    remaining = max(0, budget.budget - budget.spent)
    begins = max(ends - DAY, since)
    first = trends.hour_of(begins) + (HOUR if trends.hour_of(begins) < begins else timedelta())
    hours = (first + n * HOUR for n in range(ceil((now - first) / HOUR)))
    past = [Point(at, min(budget.budget, remaining + trends.cost_since(buckets, at))) for at in hours]
    here = Point(now, remaining)
    return Line((*past, here), (here, _end(budget, remaining, now, ends)))


def _end(budget: Budget, remaining: int, now: datetime, ends: datetime) -> Point:
    """Where a straight line reaches zero or the end of the day, whichever comes first."""
    hours_left = (ends - now) / HOUR
    if budget.per_hour and remaining / budget.per_hour < hours_left:
        return Point(now + remaining / budget.per_hour * HOUR, 0)
    return Point(ends, max(0, round(remaining - budget.per_hour * hours_left)))
