"""Budgets of the day: what is spent, reserved and left, and where the line of the last hour leads. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from queuemgr.reporting.dashboard import trends
from queuemgr.reporting.dashboard.trends import HOUR, Buckets
from queuemgr.scheduling.admission import NO_USE, Snapshot
from queuemgr.scheduling.claims import FLEET

SHOWN = 6
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Budget:
    """One limit's budget today, in requests. `per_hour` is the speed of the last hour; `ends_at` when
    it will be spent at that speed, None when it lasts, or when `because` says why no time is known."""

    limit: str
    budget: int
    spent: int
    reserved: int
    left: int
    per_hour: float
    ends_at: datetime | None
    resets_at: datetime | None
    because: str

    @property
    def share_spent(self) -> float:
        return min(1.0, self.spent / self.budget) if self.budget else 1.0

    @property
    def share_reserved(self) -> float:
        room = 1.0 - self.share_spent
        return min(room, self.reserved / self.budget) if self.budget else 0.0

    @property
    def is_spent(self) -> bool:
        return self.left == 0


@dataclass(frozen=True, slots=True)
class Point:
    """Requests left at a moment."""

    at: datetime
    left: int


@dataclass(frozen=True, slots=True)
class Line:
    """The fleet's budget over its day: hour by hour to now, and where it leads at today's speed."""

    past: tuple[Point, ...]
    ahead: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Budgets:
    """Budgets, the fleet's first and then those nearest their end; the fleet's requests today by
    phase, whether it has a budget or not."""

    shown: tuple[Budget, ...]
    others: int
    line: Line | None
    spent: int
    spent_by_phase: Mapping[str, int]

    @property
    def fleet(self) -> Budget | None:
        return next((budget for budget in self.shown if budget.limit == FLEET), None)


def budgets(seen: Snapshot, forecasts: Sequence[Mapping[str, Any]]) -> tuple[Budget, ...]:
    """What `forecast.forecast` says of budgets, beside what is spent and reserved of each."""
    found = [_budget(seen, forecast) for forecast in forecasts]
    return tuple(sorted(found, key=_nearest_its_end))


def _nearest_its_end(budget: Budget) -> tuple[bool, float, str]:
    return budget.limit != FLEET, -(budget.share_spent + budget.share_reserved), budget.limit


def _budget(seen: Snapshot, forecast: Mapping[str, Any]) -> Budget:
    name = forecast["limit"]
    rule, use = seen.rule(name), seen.use.get(name, NO_USE)
    return Budget(
        limit=name,
        budget=rule.daily_budget or 0,
        spent=use.spent,
        reserved=use.reserved,
        left=forecast["left"],
        per_hour=forecast["per_hour"],
        ends_at=_moment(forecast["ends_at"]),
        resets_at=rule.day_ends,
        because=forecast["because"],
    )


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def line(budget: Budget, buckets: Buckets, now: datetime, since: datetime) -> Line:
    """The fleet's line; `buckets` hold requests by hour, read back to `since`.

    Drawn backwards from what is left now, so its end is exact; attempts are counted in the hour they
    ended, which for the ones under way at midnight is the day after they were charged to.
    """
    ends = budget.resets_at or now
    remaining = max(0, budget.budget - budget.spent)
    begins = max(ends - DAY, since)
    past = [
        Point(at, min(budget.budget, remaining + trends.cost_since(buckets, at)))
        for at in _hours(begins, now)
    ]
    here = Point(now, remaining)
    return Line((*past, here), (here, *_ahead(budget, remaining, now, ends)))


def _hours(begins: datetime, now: datetime) -> Iterator[datetime]:
    at = trends.hour_of(begins)
    at += HOUR if at < begins else timedelta()
    while at < now:
        yield at
        at += HOUR


def _ahead(budget: Budget, remaining: int, now: datetime, ends: datetime) -> Iterator[Point]:
    """Straight on, to nothing or to the end of the day, whichever comes first."""
    hours_left = (ends - now) / HOUR
    if not budget.per_hour:
        yield Point(ends, remaining)
        return
    until_spent = remaining / budget.per_hour
    if until_spent < hours_left:
        yield Point(now + until_spent * HOUR, 0)
    else:
        yield Point(ends, max(0, round(remaining - budget.per_hour * hours_left)))
