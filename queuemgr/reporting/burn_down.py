"""What is left of an allowance that begins anew, since its period began and as its forecast says from now on;
and of one that refills all the time, which has no such line, what was used of it lately, period by period.

Of long periods what was used by day is kept beside every limit. Of a day and shorter ones the attempts that
ended since it began are added up, no more of them than for other measured figures: if there are more, the
line begins later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from math import ceil
from typing import NamedTuple

from queuemgr.base import sql
from queuemgr.base.allowance import CLOCKED, Allowance
from queuemgr.base.meters import STARTS
from queuemgr.base.queue_database import connection
from queuemgr.models import AllowanceUsage
from queuemgr.reporting.allowances import AllowanceStatus
from queuemgr.reporting.amounts_sql import SECONDS_ENDED, USES_ANY, each_amount, summed
from queuemgr.reporting.throughput import MAX_ATTEMPTS
from queuemgr.scheduling.claims import FLEET

STEPS = 24
LONGEST = timedelta(days=40)
"""How far back the line goes: a month, and of what is allowed in total as much."""

SHORTEST_DAY = timedelta(hours=23)
"""A day that begins so long before the period ends in it."""

HOUR = 3600.0


class Used(NamedTuple):
    """What was used from a moment on, until now or for as long as a window is."""

    at: datetime
    amount: int


@dataclass(frozen=True, slots=True)
class Point:
    """How much is left at a moment."""

    at: datetime
    left: int


@dataclass(frozen=True, slots=True)
class Line:
    """Until now, and from now on: until nothing is left, or the period ends."""

    past: tuple[Point, ...]
    ahead: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Windows:
    """What was used in each of the last stretches of time, as long as a period (whole seconds), the last of
    which ends now; `allowed`: what refills in one of them."""

    allowed: int
    length: timedelta
    used: tuple[Used, ...]


def line(
    most: int, used: int, since: Iterable[Used], per_hour: float, ends: datetime | None, now: datetime
) -> Line:
    """What was left is counted backwards from now, and what will be left at an even pace."""
    left = max(0, most - used)
    here = Point(now, left)
    past = (Point(at, min(most, left + amount)) for at, amount in since)
    return Line((*past, here), (here, _end(left, per_hour, ends, now)))


def _end(left: int, per_hour: float, ends: datetime | None, now: datetime) -> Point:
    """Where a straight line reaches zero or the end of the period, whichever comes first."""
    ends = ends or now + LONGEST
    hours = (ends - now).total_seconds() / HOUR
    if per_hour and left / per_hour < hours:
        return Point(now + timedelta(hours=left / per_hour), 0)
    return Point(ends, max(0, round(left - per_hour * hours)))


def of_limit(limit: str, statuses: Iterable[AllowanceStatus], zone: str, now: datetime) -> dict[str, Line]:
    """The lines of a limit's allowances that begin anew, by name."""
    found = {}
    for status in statuses:
        if not status.allowance.rolling and status.allowance.known:
            since, ahead = _used(limit, status, zone, now), status.forecast
            pace = ahead.per_hour if ahead and ahead.waiting else 0
            found[status.allowance.name] = line(status.most, status.used, since, pace, status.resets_at, now)
    return found


def _used(limit: str, status: AllowanceStatus, zone: str, now: datetime) -> Sequence[Used]:
    allowance = status.allowance
    begins = max(allowance.period_at(now, zone).starts, now - LONGEST)
    if allowance.period in (*CLOCKED, "day"):
        return _by_attempts(limit, allowance.meter, begins, now)
    rows = AllowanceUsage.objects.filter(
        limit=limit, allowance=f"{allowance.meter}/day", starts_at__gt=begins - SHORTEST_DAY
    )
    days = rows.order_by("starts_at").values_list("starts_at", "spent")
    return _until_now([(max(at, begins), spent) for at, spent in days])


def _until_now(steps: Sequence[tuple[datetime, int]]) -> list[Used]:
    """Of what was used in each step, what was used from its beginning on."""
    sums = list(accumulate(amount for _, amount in reversed(steps)))
    return [Used(at, amount) for (at, _), amount in zip(steps, reversed(sums), strict=True)]


_LATELY = """
    SELECT phase, limit_keys, cost, uses, ended_at FROM queuemgr_attempt
     WHERE ended_at >= %s ORDER BY ended_at DESC LIMIT %s
"""
_USED = f"""
    SELECT ({{seconds}} - %s) / %s AS number, {{sum}} FROM ({_LATELY}) AS a, {{amounts}} m
     WHERE m.key = %s AND {USES_ANY} AND {{under}} GROUP BY 1
"""
_HAS_KEY = {
    "postgresql": "STRPOS(' ' || a.limit_keys || ' ', %s) > 0",
    "sqlite": "INSTR(' ' || a.limit_keys || ' ', %s) > 0",
}


class _Step(NamedTuple):
    number: int
    amount: int


def _by_attempts(limit: str, meter: str, begins: datetime, now: datetime) -> Sequence[Used]:
    """What the attempts used that ended since, by step: as many of them as there are in a day of hours."""
    step = max(1, round((now - begins).total_seconds() / STEPS))
    amounts = _by_step(limit, meter, begins, step)
    steps = range(min(amounts, default=0), (int(now.timestamp()) - int(begins.timestamp())) // step + 1)
    return _until_now([(begins + timedelta(seconds=step * n), amounts.get(n, 0)) for n in steps])


def _by_step(limit: str, meter: str, begins: datetime, step: int) -> dict[int, int]:
    """What the attempts used that ended in each step of so many seconds since, where they used any."""
    under, given = _under(limit)
    statement = _USED.format(
        seconds=SECONDS_ENDED[connection.vendor], sum=summed("CAST(m.value AS numeric)"),
        amounts=each_amount(), under=under,
    )  # fmt: skip
    first = int(begins.timestamp())
    found = sql.rows(_Step, statement, [first, step, begins, MAX_ATTEMPTS, meter, *given])
    return {row.number: int(row.amount) for row in found}


def lately(limit: str, allowances: Iterable[Allowance], now: datetime) -> dict[str, Windows]:
    """What was used of a limit's rolling allowances, by name; of none whose period is longer than the line of
    any other, nor of starts, which attempts do not use."""
    return {
        each.name: _windows(limit, each, now)
        for each in allowances
        if each.rolling and each.known and each.meter != STARTS and each.length <= LONGEST.total_seconds()
    }


def _windows(limit: str, allowance: Allowance, now: datetime) -> Windows:
    step = max(1, ceil(allowance.length))
    number = max(1, min(STEPS, int(LONGEST.total_seconds()) // step))
    begins, last = now - timedelta(seconds=number * step), number - 1
    amounts = dict.fromkeys(range(number), 0)
    for n, amount in _by_step(limit, allowance.meter, begins, step).items():
        amounts[min(n, last)] += amount
    used = tuple(Used(begins + timedelta(seconds=step * n), amounts[n]) for n in range(number))
    return Windows(round(allowance.amount * step / allowance.length), timedelta(seconds=step), used)


def _under(limit: str) -> tuple[str, list[str]]:
    """A condition for the attempts under a limit, with its parameters."""
    if limit == FLEET:
        return "1 = 1", []
    if limit.startswith("phase:"):
        return "a.phase = %s", [limit.removeprefix("phase:")]
    return _HAS_KEY[connection.vendor], [f" {limit} "]
