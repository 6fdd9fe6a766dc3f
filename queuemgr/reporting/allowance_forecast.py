"""When an allowance runs out, and when all that waits has begun under it: of remaining work alone. Pure.

What waits, and will wait for its later steps, is taken to use what it is expected to, the higher priority
first, as fast as it was used lately and no faster than the allowance lets it. A calendar allowance is played
period by period, with the length that each has in its zone; a rolling one refills as its clock says (GCRA).
Nothing else is known here: no caps, no other allowance, no work still to be enqueued.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any, NamedTuple

from queuemgr.base.allowance import CLOCKED, SECONDS, Allowance
from queuemgr.base.meters import meter_or_plain
from queuemgr.base.time_text import moment_text
from queuemgr.flows.flow import PRIORITY_NAMES
from queuemgr.reporting.estimate_ranges import about, with_ranges

MOST_PERIODS = 400
"""Calendar periods that are looked ahead: a year of days."""

MAX_AHEAD = timedelta(days=3650)

LESS_THAN_ANY = 0.5
"""Less than the smallest part of any meter: what is left after rounding."""

RANKS = tuple(sorted(PRIORITY_NAMES))
"""Priorities, the highest first."""


class Need(NamedTuple):
    """Work of one priority that waits, or will: how many executions, and what each is expected to use."""

    rank: int
    each: int
    executions: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """Of one allowance. Amounts are in the smallest part of its meter.

    `waiting`: what remaining work is expected to use; `never`: what of it can never start, since one step
    takes more than the allowance holds. `per_hour`: used an hour lately. `runs_out_at`: when nothing is left
    of it for work that waits; `done_at`: when all that waits has begun, at the earliest if nothing was used
    lately. Where a time is None, `because` says why.
    """

    waiting: int
    never: int
    per_hour: int
    runs_out_at: datetime | None
    done_at: datetime | None
    because: str

    def as_data(self, now: datetime) -> dict[str, Any]:
        """With the ranges of its times; the earliest one has none."""
        found = with_ranges(asdict(self), now, runs_out_at="budget", done_at="end")
        return found if self.per_hour else found | {"done_at_p10": None, "done_at_p90": None}

    def done_text(self, now: datetime) -> str:
        """`all begun 17:05:00 UTC (8 of 10: …)`."""
        if self.done_at and not self.per_hour:
            return f"all begun at the earliest {moment_text(self.done_at, now)}"
        return f"all begun {about(self.done_at, 'end', now)}" if self.done_at else ""

    def text(self, meter: str, now: datetime) -> str:
        """`usd 41.50 wait for it, 3.00 an hour lately: runs out 14:32:10 UTC (8 of 10: …), all begun …`."""
        if not self.waiting and not self.never:
            return self.because
        amount = meter_or_plain(meter).text
        pace = f", {self.pace(meter)} an hour lately" if self.per_hour else ""
        ends = f"runs out {about(self.runs_out_at, 'budget', now)}" if self.runs_out_at else ""
        said = ", ".join(filter(None, (ends, self.done_text(now), self.because)))
        return f"{meter} {amount(self.waiting + self.never)} wait for it{pace}: {said}"

    def pace(self, meter: str) -> str:
        """What is used an hour, to hundredths of the meter's unit where it has smaller parts."""
        of = meter_or_plain(meter)
        step = max(1, of.scale // 100)
        return of.text(round(self.per_hour / step) * step if self.per_hour >= step else self.per_hour)


ENOUGH = "enough for all that waits"
NOTHING_WAITS = "nothing that would use it waits"
NO_PACE = "nothing was used lately"
NEVER_ANEW = "more waits than is left, and it never begins anew"
TOO_FAR = "more waits than it allows in so long a time"
TOO_LARGE = "one step takes more than it can ever hold"


def forecast(
    allowance: Allowance, used: int, needs: Iterable[Need], per_second: float, zone: str, now: datetime
) -> Forecast:
    """Of an allowance of which so much is used and reserved; `zone`: where the days of its limit are."""
    fits = dict.fromkeys(RANKS, 0)
    never = 0
    for need in needs:
        if need.each > allowance.usable(need.rank):
            never += need.each * need.executions
        else:
            fits[need.rank] += need.each * need.executions
    per_hour = round(per_second * 3600)
    waiting = sum(fits.values())
    if not waiting:
        return Forecast(0, never, per_hour, None, None, TOO_LARGE if never else NOTHING_WAITS)
    play = _rolling if allowance.rolling else _calendar
    found = play(allowance, used, {rank: float(fits[rank]) for rank in RANKS}, per_second, zone, now)
    if found.done_at and found.done_at > now + MAX_AHEAD:
        found = found._replace(done_at=None, because=TOO_FAR)
    because = TOO_LARGE if never and found.because in ("", ENOUGH) else found.because
    return Forecast(waiting, never, per_hour, found.runs_out_at, found.done_at, because)


class _Times(NamedTuple):
    runs_out_at: datetime | None
    done_at: datetime | None
    because: str = ""


def _after(now: datetime, seconds: float) -> datetime:
    """Further ahead than anybody plans, it is just too far."""
    return now + min(timedelta(seconds=min(seconds, 1e10)), 2 * MAX_AHEAD)


def _calendar(
    allowance: Allowance, used: float, needs: dict[int, float], pace: float, zone: str, now: datetime
) -> _Times:
    runs_out: datetime | None = None
    if pace and sum(needs.values()) / pace > MAX_AHEAD.total_seconds():
        return _Times(None, None, TOO_FAR)
    at = now
    for number in range(MOST_PERIODS):
        ends = allowance.period_at(at, zone).ends
        before = dict(needs)
        took = _take(allowance, used, needs, pace * (ends - at).total_seconds() if pace and ends else None)
        begun = _after(at, took / pace) if pace else at
        if not any(needs.values()):
            return _Times(runs_out, begun, _why_none(runs_out, number, pace))
        is_spent = _take(allowance, used + took, dict(needs), None) < LESS_THAN_ANY
        if runs_out is None and is_spent and (pace or not took):
            runs_out = begun
        if ends is None:
            return _Times(runs_out, None, NEVER_ANEW)
        if number and allowance.period in CLOCKED:
            ends += _skip(allowance, before, needs)
        at, used = ends, 0.0
    return _Times(runs_out, None, TOO_FAR)


def _take(allowance: Allowance, used: float, needs: dict[int, float], at_most: float | None) -> float:
    """Take from `needs` what a period has left for each priority, `at_most` in all; returns how much."""
    took = 0.0
    for rank in RANKS:
        room = max(0.0, allowance.usable(rank) - used - took)
        some = min(needs[rank], room, float("inf") if at_most is None else at_most - took)
        needs[rank] -= some
        took += some
    return took


def _skip(allowance: Allowance, before: Mapping[int, float], needs: dict[int, float]) -> timedelta:
    """Whole periods, all of one length, in which the same is taken again, without the last: takes it, returns
    how long they are."""
    taken = {rank: before[rank] - needs[rank] for rank in RANKS if before[rank] > needs[rank]}
    times = min(max(0, ceil(needs[rank] / each) - 1) for rank, each in taken.items())
    for rank, each in taken.items():
        needs[rank] -= times * each
    return min(times * timedelta(seconds=SECONDS[allowance.period]), 2 * MAX_AHEAD)


def _why_none(runs_out: datetime | None, number: int, pace: float) -> str:
    if runs_out:
        return ""
    if not number:
        return ENOUGH
    return "" if pace else NO_PACE


def _rolling(
    allowance: Allowance, used: float, needs: dict[int, float], pace: float, zone: str, now: datetime
) -> _Times:
    """As it refills by one part in each interval; idle, it is full and refills no further."""
    refill, seconds, level = 1 / allowance.interval, 0.0, used
    runs_out: float | None = None
    for rank in RANKS:
        need, usable = needs[rank], allowance.usable(rank)
        if not need:
            continue
        if level >= usable:
            runs_out = seconds if runs_out is None else runs_out
            seconds, level = seconds + (level - usable) / refill, float(usable)
        steady = need / pace if pace else 0.0
        until_spent = (usable - level) / (pace - refill) if pace > refill else float("inf")
        if pace and steady <= until_spent:
            took = steady
        elif pace:
            runs_out = seconds + until_spent if runs_out is None else runs_out
            took = until_spent + (need - pace * until_spent) / refill
        else:
            took = max(0.0, level + need - usable) / refill
        seconds, level = seconds + took, max(0.0, level + need - took * refill)
    ends = _after(now, runs_out) if runs_out is not None else None
    done = _after(now, seconds)
    if ends:
        return _Times(ends, done)
    return _Times(None, done, ENOUGH if pace or done == now else NO_PACE)
