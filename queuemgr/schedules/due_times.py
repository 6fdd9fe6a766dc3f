"""The due times of a timing. Pure.

A cron expression names local times. Where clocks change, a local time may not exist, or exist twice:

- An expression that recurs through the day (its minute or hour begins with `*`) follows elapsed time: a local
  time that does not exist is not due, and one that exists twice is due twice.
- Any other is due once for each local time that it names: one that does not exist, when the clocks have
  jumped over it; one that exists twice, the first time.

So a job of every minute has no gap and no burst, and one of 02:30 runs once a day. The library that reads the
expression is given local times without a zone; which moments they are is decided here.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim

from queuemgr.base.budget_day import day_ends
from queuemgr.base.budget_day import zone as zone_of
from queuemgr.schedules.timing import FROM_END, Cron, Every, Once, Timing, is_excluded

SECOND = timedelta(seconds=1)
MOST_EXCLUDED_DAYS = 3660
"""After so many excluded due times, each of another day, a timing is not due any more."""

LONGEST_WAIT = timedelta(days=40 * 366)
"""Nor is it if all due times of so long are excluded. Leap days are eight years apart at most."""


def next_due(timing: Timing, after: datetime, anchor: datetime) -> datetime | None:
    """The first due time after a moment, in UTC; None if there is none. `anchor` is when the schedule came
    into force: an interval is counted from there."""
    if isinstance(timing, Once):
        return timing.at if timing.at > after else None
    try:
        return _next_included(timing, after, anchor)
    except OverflowError:  # beyond the year 9999
        return None


def _next_included(timing: Cron | Every, after: datetime, anchor: datetime) -> datetime | None:
    began = after
    for _ in range(MOST_EXCLUDED_DAYS):
        due = _next(timing, after, anchor)
        if due is None or not timing.exclude:
            return due
        if not is_excluded(timing, due.astimezone(zone_of(timing.zone)).date()):
            return due
        if due - began > LONGEST_WAIT:
            return None
        after = day_ends(due, timing.zone) - timedelta(microseconds=1)
    return None


def upcoming(timing: Timing, after: datetime, anchor: datetime, count: int) -> list[datetime]:
    """The next due times after a moment."""
    return list(islice(_each(timing, after, anchor), count))


class DueTimes(NamedTuple):
    """The latest of the due times of a span, and whether there are earlier ones."""

    times: tuple[datetime, ...]
    has_earlier: bool = False


def latest(timing: Timing, first: datetime, until: datetime, anchor: datetime, most: int) -> DueTimes:
    """The latest `most` due times from the due time `first` until a moment.

    A schedule of every second that was not looked at for a year has millions: only as many are worked out as
    are needed, from the end.
    """
    following = next_due(timing, first, anchor)
    if following is None or following > until:
        return DueTimes((first,))
    distance, whole = following - first, until - first
    times_as_long = most + 1
    while True:
        start = until - distance * times_as_long if times_as_long < whole / distance else first
        times = deque([first] if start == first else [], maxlen=most + 1)
        for due in _each(timing, start, anchor):
            if due > until:
                break
            times.append(due)
        if len(times) > most:
            return DueTimes(tuple(times)[1:], has_earlier=True)
        if start == first:
            return DueTimes(tuple(times))
        times_as_long *= 2


def follows_the_end(timing: Timing) -> bool:
    """Whether its next due time is counted from the end of a run."""
    return isinstance(timing, Every) and timing.measured == FROM_END


def _each(timing: Timing, after: datetime, anchor: datetime) -> Iterator[datetime]:
    while (due := next_due(timing, after, anchor)) is not None:
        yield due
        after = due


def _next(timing: Cron | Every, after: datetime, anchor: datetime) -> datetime | None:
    if isinstance(timing, Every):
        periods = max((after - anchor) // timedelta(seconds=timing.seconds), 0)
        return anchor + timedelta(seconds=timing.seconds) * (periods + 1)
    return _next_of_cron(timing, after.astimezone(UTC))


@lru_cache(maxsize=10_000)
def _next_of_cron(timing: Cron, after: datetime) -> datetime | None:
    zone = zone_of(timing.zone)
    if timing.recurs_through_the_day:
        return _next_elapsed(timing.expression, zone, after)
    return _next_of_the_clock(timing.expression, zone, after)


def _next_elapsed(expression: str, zone: ZoneInfo, after: datetime) -> datetime | None:
    """Between two changes of the clock local time and UTC have the same order, so each such stretch is
    searched by itself."""
    local, start = _local(after, zone), after
    while True:
        offset = _offset(start, zone)
        named = next(CronSim(expression, local), None)
        if named is None:
            return None
        due = (named - offset).replace(tzinfo=UTC)
        change = _next_change(zone, start, due)
        if change is None:
            return due
        local, start = _local(change, zone) - SECOND, change  # the first second of the stretch counts


def _next_of_the_clock(expression: str, zone: ZoneInfo, after: datetime) -> datetime | None:
    for named in CronSim(expression, _local(after, zone)):
        due = _moment(named, zone)
        if due > after:
            return due
    return None


def _moment(local: datetime, zone: ZoneInfo) -> datetime:
    """When it is this local time: the first time, or if never, when the clocks have jumped over it."""
    moment = local.replace(tzinfo=zone).astimezone(UTC)
    if _local(moment, zone) == local:
        return moment
    before_the_jump = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return _next_change(zone, before_the_jump, moment) or moment


def _local(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


STEP = timedelta(hours=12)
"""No zone changes its clocks twice within so long."""


def _next_change(zone: ZoneInfo, start: datetime, until: datetime) -> datetime | None:
    """The first moment after `start` and until `until` at which clocks show another offset."""
    offset, known = _offset(start, zone), start
    while known < until:
        probe = min(known + STEP, until)
        if _offset(probe, zone) != offset:
            return _change_between(zone, offset, known, probe)
        known = probe
    return None


def _change_between(zone: ZoneInfo, offset: timedelta, before: datetime, after: datetime) -> datetime:
    """Clocks change at whole seconds."""
    low, high = math.floor(before.timestamp()), math.ceil(after.timestamp())
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(datetime.fromtimestamp(middle, UTC), zone) == offset:
            low = middle
        else:
            high = middle
    return datetime.fromtimestamp(high, UTC)
