"""Throughput, waits and run times over an hour, a day and a week, from minute rollups. Pure.

Attempts that were snoozed or interrupted by a shutdown are not counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from queuemgr.base import histogram
from queuemgr.flows.flow import PRIORITY_NAMES, all_phases
from queuemgr.models import NOT_COUNTED_AS_ATTEMPT, Outcome

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


class MinuteRow(NamedTuple):
    """The columns of a `MinuteStats` that are read."""

    minute: datetime
    phase: str
    priority: int
    outcome: str
    attempts: int
    cost: int
    waited: Sequence[int]
    ran: Sequence[int]


class Bucket(NamedTuple):
    """What sums are grouped by: the start of a minute or an hour, and the queue."""

    at: datetime
    phase: str
    priority: int


@dataclass(frozen=True)
class Sum:
    """Attempts by outcome, requests spent, and histograms of seconds waited and run."""

    outcomes: Counter[str] = field(default_factory=Counter)
    cost: int = 0
    waited: Sequence[int] = ()
    ran: Sequence[int] = ()


Buckets = Mapping[Bucket, Sum]


def total(sums: Iterable[Sum]) -> Sum:
    some = list(sums)
    outcomes: Counter[str] = Counter()
    for one in some:
        outcomes.update(one.outcomes)
    return Sum(
        outcomes,
        sum(one.cost for one in some),
        histogram.merge(one.waited for one in some),
        histogram.merge(one.ran for one in some),
    )


def fold(rows: Iterable[MinuteRow], start_of: Callable[[datetime], datetime]) -> dict[Bucket, Sum]:
    """The rows added up in buckets; `start_of` gives the start of a minute's bucket.

    Requests count whatever the outcome, the rest only for counted attempts.
    """
    alike: defaultdict[Bucket, list[Sum]] = defaultdict(list)
    for row in rows:
        counted = row.outcome not in NOT_COUNTED_AS_ATTEMPT
        one = Sum(Counter({row.outcome: row.attempts}), row.cost, row.waited, row.ran)
        bucket = Bucket(start_of(row.minute), row.phase, row.priority)
        alike[bucket].append(one if counted else Sum(cost=row.cost))
    return {bucket: total(some) for bucket, some in alike.items()}


def merge(into: dict[Bucket, Sum], more: Buckets) -> None:
    """Add buckets to others, without changing sums that another thread may be reading."""
    for bucket, one in more.items():
        into[bucket] = total((into[bucket], one)) if bucket in into else one


def hour_of(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


@dataclass(frozen=True, slots=True)
class EndedAttempts:
    """Attempts that ended: done, to be tried again, failed for good."""

    done: int
    again: int
    failed: int

    @property
    def tries(self) -> int:
        return self.done + self.again + self.failed


def _ended(outcomes: Counter[str]) -> tuple[int, int, int]:
    done, failed = outcomes[Outcome.DONE] + outcomes[Outcome.SKIPPED], outcomes[Outcome.FAILED]
    return done, outcomes.total() - done - failed, failed


@dataclass(frozen=True, slots=True)
class Speed(EndedAttempts):
    """Throughput over one window. Median and 95th percentile are seconds; None without attempts."""

    waited: tuple[float | None, float | None]
    ran: tuple[float | None, float | None]


def speed(sums: Iterable[Sum]) -> Speed:
    """The throughput of these sums together."""
    one = total(sums)
    return Speed(*_ended(one.outcomes), _percentiles(one.waited), _percentiles(one.ran))


def _percentiles(counts: Sequence[int]) -> tuple[float | None, float | None]:
    return histogram.percentile(counts, 0.5), histogram.percentile(counts, 0.95)


NOTHING = speed(())


@dataclass(frozen=True, slots=True)
class Bar(EndedAttempts):
    """One bar of the chart: what ended in the time from `start`."""

    start: datetime


@dataclass(frozen=True, slots=True)
class Window:
    """One window: speeds by the name of a phase or priority (`all`: of all work), and its bars.

    `complete_since` is later than the window's start where older minutes are not read yet.
    """

    name: str
    start: datetime
    speeds: Mapping[str, Speed]
    bars: tuple[Bar, ...]
    complete_since: datetime

    @property
    def key(self) -> str:
        """Its name in a URL."""
        return self.name.replace(" ", "")

    @property
    def is_partial(self) -> bool:
        return self.complete_since > self.start


ALL = "all"


def speeds(buckets: Buckets) -> dict[str, Speed]:
    """For all work, then for each phase, then for each priority."""
    alike: defaultdict[tuple[str, int], list[Sum]] = defaultdict(list)
    for bucket, one in buckets.items():
        alike[bucket.phase, bucket.priority].append(one)
    sums = {queue: total(some) for queue, some in alike.items()}
    by_name = {ALL: speed(sums.values())}
    for phase in (*all_phases(), *sorted({phase for phase, _ in sums} - all_phases().keys())):
        by_name[phase] = speed(one for queue, one in sums.items() if queue[0] == phase)
    for rank, name in sorted(PRIORITY_NAMES.items()):
        by_name[name] = speed(one for queue, one in sums.items() if queue[1] == rank)
    return by_name


def bars(buckets: Buckets, starts: Sequence[datetime], each: timedelta) -> tuple[Bar, ...]:
    """A bar for each start, of the buckets that begin within `each` from it."""
    outcomes: defaultdict[datetime, Counter[str]] = defaultdict(Counter)
    for bucket, one in buckets.items():
        outcomes[starts[0] + (bucket.at - starts[0]) // each * each].update(one.outcomes)
    return tuple(Bar(*_ended(outcomes[start]), start) for start in starts)


def cost_since(buckets: Buckets, start: datetime) -> int:
    """Requests spent in the buckets that begin at `start` or later."""
    return sum(one.cost for bucket, one in buckets.items() if bucket.at >= start)
