"""How long steps run and how often they fail, by step and by limit, beside a week before.

Of a window the attempts are read by a sample of their ids, at most `SAMPLE` of each window: its cost does not
grow with the table. Counts and sums of a sample are scaled up to the window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import QuerySet

from queuemgr.base import histogram
from queuemgr.models import NOT_COUNTED_AS_ATTEMPT, Attempt, Outcome

WINDOWS = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7)}
WEEK = timedelta(days=7)
SAMPLE = 10_000
ROWS_A_STATEMENT = 5_000
SLOWEST = 10
MOST_LIMITS = 50

BAD = (Outcome.FAILED, Outcome.LOST, Outcome.RETRIED)


class Ran(NamedTuple):
    """One attempt, as it is read."""

    id: int
    execution_id: int
    flow: str
    key: str
    phase: str
    step: str
    limit_keys: str
    outcome: str
    seconds: float


@dataclass
class Times:
    """Attempts of one step or under one limit. `scale`: how many attempts each one read stands for."""

    name: str
    scale: float = 1.0
    outcomes: Counter[str] = field(default_factory=Counter)
    ran: list[int] = field(default_factory=histogram.empty)
    seconds: float = 0.0
    longest: float = 0.0

    def add(self, one: Ran) -> None:
        self.outcomes[one.outcome] += 1
        self.seconds += one.seconds
        self.longest = max(self.longest, one.seconds)
        histogram.count_into(self.ran, one.seconds)

    @property
    def attempts(self) -> float:
        return self.scale * self.outcomes.total()

    @property
    def total(self) -> float:
        """Seconds that all its attempts ran."""
        return self.scale * self.seconds

    @property
    def failure_rate(self) -> float | None:
        """The share of attempts that failed, whether they were retried or not; None for none."""
        every = self.outcomes.total()
        return sum(self.outcomes[bad] for bad in BAD) / every if every else None

    @property
    def p50(self) -> float | None:
        return self._percentile(0.5)

    @property
    def p95(self) -> float | None:
        return self._percentile(0.95)

    def _percentile(self, q: float) -> float | None:
        """Estimated within a bucket, but never above the longest there was."""
        found = histogram.percentile(self.ran, q)
        return None if found is None else min(found, self.longest)


@dataclass(frozen=True)
class Compared:
    """One step, or one limit, in the window and a week before."""

    name: str
    now: Times
    before: Times


@dataclass(frozen=True)
class StepTimes:
    """`steps` with most total time first, `limits` with most failures. `read` of `in_window` attempts were
    read, `read_before` in the window a week before: none are kept from then where it is 0."""

    since: datetime
    steps: Sequence[Compared]
    limits: Sequence[Compared]
    slowest: Sequence[Ran]
    read: int
    in_window: int
    read_before: int

    @property
    def is_sample(self) -> bool:
        return self.read < self.in_window


def step_times(window: timedelta, now: datetime) -> StepTimes:
    """Of the attempts that ended in this time before `now`."""
    read, in_window = _sample(now - window, now)
    before, in_window_before = _sample(now - window - WEEK, now - WEEK)
    scales = (_scale(read, in_window), _scale(before, in_window_before))
    steps = _compared(_by_step(read, scales[0]), _by_step(before, scales[1]))
    limits = _compared(_by_limit(read, scales[0]), _by_limit(before, scales[1]))
    steps.sort(key=lambda one: (-one.now.total, one.name))
    limits.sort(key=lambda one: (-(one.now.failure_rate or 0), -one.now.attempts, one.name))
    slowest = sorted(read, key=lambda one: (-one.seconds, -one.id))[:SLOWEST]
    return StepTimes(
        now - window, steps, limits[:MOST_LIMITS], slowest, len(read), max(in_window, len(read)), len(before)
    )


def _scale(read: Sequence[Ran], in_window: int) -> float:
    return max(1.0, in_window / len(read)) if read else 1.0


def _sample(begins: datetime, ends: datetime) -> tuple[list[Ran], int]:
    """Attempts that ended then, at most `SAMPLE`, and about how many there are.

    Ids are given in the order in which attempts end, but for a moment: those in between are of the window.
    """
    ended = Attempt.objects.filter(ended_at__gte=begins, ended_at__lt=ends)
    first = ended.order_by("ended_at").values_list("pk", flat=True).first()
    last = ended.order_by("-ended_at").values_list("pk", flat=True).first()
    if first is None or last is None:
        return [], 0
    low, high = min(first, last), max(first, last)
    stride = -(-(high - low + 1) // SAMPLE)
    if stride == 1:
        return list(_read(ended)), 0
    ids = range(low, high + 1, stride)
    found = [
        one
        for at in range(0, len(ids), ROWS_A_STATEMENT)
        for one in _read(ended.filter(pk__in=ids[at : at + ROWS_A_STATEMENT]))
    ]
    return found, len(found) * stride


def _read(attempts: QuerySet[Attempt]) -> Iterator[Ran]:
    columns = ("id", "execution_id", "execution__flow", "execution__key", "phase", "step", "limit_keys")
    rows = attempts.order_by().values_list(*columns, "outcome", "started_at", "ended_at")
    for *known, outcome, started_at, ended_at in rows:
        if outcome not in NOT_COUNTED_AS_ATTEMPT:
            seconds = max(0.0, (ended_at - started_at).total_seconds())
            yield Ran._make((*known, outcome, seconds))


def _by_step(read: Sequence[Ran], scale: float) -> dict[str, Times]:
    return _grouped(((f"{one.flow}: {one.phase}/{one.step}", one) for one in read), scale)


def _by_limit(read: Sequence[Ran], scale: float) -> dict[str, Times]:
    return _grouped(((key, one) for one in read for key in one.limit_keys.split()), scale)


def _grouped(named: Iterable[tuple[str, Ran]], scale: float) -> dict[str, Times]:
    groups: dict[str, Times] = {}
    for name, one in named:
        (groups.get(name) or groups.setdefault(name, Times(name, scale))).add(one)
    return groups


def _compared(now: Mapping[str, Times], before: Mapping[str, Times]) -> list[Compared]:
    return [Compared(name, times, before.get(name) or Times(name)) for name, times in now.items()]
