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

DONE = (Outcome.DONE, Outcome.SKIPPED)
FAILED = (Outcome.FAILED,)


class Kind(NamedTuple):
    """What sums are grouped by."""

    phase: str
    priority: int


@dataclass(frozen=True)
class Sum:
    """Attempts by outcome, requests spent, and histograms of seconds waited and run."""

    outcomes: Counter[str] = field(default_factory=Counter)
    cost: int = 0
    waited: Sequence[int] = ()
    ran: Sequence[int] = ()

    def __add__(self, other: Sum) -> Sum:
        return Sum(
            self.outcomes + other.outcomes,
            self.cost + other.cost,
            histogram.merge((self.waited, other.waited)),
            histogram.merge((self.ran, other.ran)),
        )

    @property
    def tries(self) -> int:
        return self.outcomes.total()

    def ended(self, *outcomes: str) -> int:
        return sum(self.outcomes[outcome] for outcome in outcomes)


Sums = dict[Kind, Sum]
Buckets = Mapping[datetime, Sums]


class MinuteRow(NamedTuple):
    """The columns of a `Minute` that are read."""

    minute: datetime
    phase: str
    priority: int
    outcome: str
    attempts: int
    cost: int
    waited: Sequence[int]
    ran: Sequence[int]


def fold(rows: Iterable[MinuteRow], bucket_of: Callable[[datetime], datetime]) -> dict[datetime, Sums]:
    """The rows added up by kind in buckets of time; `bucket_of` gives the start of a minute's bucket.

    Requests count whatever the outcome, the rest only for counted attempts.
    """
    alike: defaultdict[tuple[datetime, Kind], list[MinuteRow]] = defaultdict(list)
    for row in rows:
        alike[bucket_of(row.minute), Kind(row.phase, row.priority)].append(row)
    buckets: dict[datetime, Sums] = {}
    for (bucket, kind), some in alike.items():
        buckets.setdefault(bucket, {})[kind] = _sum(some)
    return buckets


def _sum(rows: Sequence[MinuteRow]) -> Sum:
    tries = [row for row in rows if row.outcome not in NOT_COUNTED_AS_ATTEMPT]
    outcomes: Counter[str] = Counter()
    for row in tries:
        outcomes[row.outcome] += row.attempts
    return Sum(
        outcomes,
        sum(row.cost for row in rows),
        histogram.merge(row.waited for row in tries),
        histogram.merge(row.ran for row in tries),
    )


def merge(into: dict[datetime, Sums], more: Buckets) -> None:
    """Add buckets to others, without changing sums that another thread may be reading."""
    for at, sums in more.items():
        into[at] = total((into[at], sums)) if at in into else sums


def total(sums: Iterable[Sums]) -> Sums:
    """Sums of several buckets, added up by kind."""
    added: defaultdict[Kind, Sum] = defaultdict(Sum)
    for bucket in sums:
        for kind, one in bucket.items():
            added[kind] += one
    return dict(added)


def hour_of(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


@dataclass(frozen=True, slots=True)
class Speed:
    """Throughput over one window. Percentiles are seconds; None without attempts."""

    tries: int
    done: int
    again: int
    failed: int
    waited: tuple[float | None, float | None]
    ran: tuple[float | None, float | None]


PERCENTILES = (0.5, 0.95)


def speed(sums: Iterable[Sum]) -> Speed:
    """The throughput of these sums together."""
    one = sum(sums, Sum())
    done, failed = one.ended(*DONE), one.ended(*FAILED)
    return Speed(
        tries=one.tries,
        done=done,
        again=one.tries - done - failed,
        failed=failed,
        waited=_percentiles(one.waited),
        ran=_percentiles(one.ran),
    )


def _percentiles(counts: Sequence[int]) -> tuple[float | None, float | None]:
    median, high = (histogram.percentile(counts, q) if counts else None for q in PERCENTILES)
    return median, high


NOTHING = speed(())


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of the chart: what ended in the time from `start`."""

    start: datetime
    done: int
    again: int
    failed: int


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


def speeds(sums: Sums) -> dict[str, Speed]:
    """For all work, then for each phase, then for each priority."""
    phases = [*all_phases(), *sorted({kind.phase for kind in sums} - all_phases().keys())]
    found = {ALL: speed(sums.values())}
    for phase in phases:
        found[phase] = speed(one for kind, one in sums.items() if kind.phase == phase)
    for rank, name in sorted(PRIORITY_NAMES.items()):
        found[name] = speed(one for kind, one in sums.items() if kind.priority == rank)
    return found


def bars(buckets: Buckets, starts: Sequence[datetime], each: timedelta) -> tuple[Bar, ...]:
    """A bar for each start, of the buckets that begin within `each` from it."""
    placed: defaultdict[datetime, list[Sum]] = defaultdict(list)
    for bucket, sums in buckets.items():
        at = starts[0] + (bucket - starts[0]) // each * each
        placed[at] += sums.values()
    return tuple(_bar(start, placed[start]) for start in starts)


def _bar(start: datetime, sums: Iterable[Sum]) -> Bar:
    outcomes: Counter[str] = Counter()
    for one in sums:
        outcomes.update(one.outcomes)
    done = sum(outcomes[outcome] for outcome in DONE)
    failed = sum(outcomes[outcome] for outcome in FAILED)
    return Bar(start, done, outcomes.total() - done - failed, failed)


def cost_since(buckets: Buckets, start: datetime) -> int:
    """Requests spent in the buckets that begin at `start` or later."""
    return sum(one.cost for at, sums in buckets.items() if at >= start for one in sums.values())
