"""Measured rates of the attempts that ended lately: starts, run times, waits.

Everything here reads the last hour at most, newest first by index, and stops at `MAX_ATTEMPTS`, so its cost
does not grow with the table. A window is as long as what was found in it, not a full hour, when work began
within it or there was more than may be read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import NamedTuple

from queuemgr.base import sql
from queuemgr.models import Attempt, Outcome

HOUR = timedelta(hours=1)
SHORT = timedelta(minutes=10)
MIN_STARTS = 10
"""Starts needed to use the short window."""

MIN_WINDOW = timedelta(minutes=1)
MAX_ATTEMPTS = 20_000
RUN_TIMES_OF = 2_000
"""Attempts read for medians of run times."""


@dataclass(frozen=True, slots=True)
class Starts:
    """Starts in a queue within a window of so many seconds up to now."""

    count: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.count / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        minutes = round(self.seconds / 60)
        return f"{self.count} started in the last {minutes} minute{'' if minutes == 1 else 's'}"


class _Moment(NamedTuple):
    at: datetime | None


def starts(phase: str, priority: int, now: datetime) -> Starts:
    """Starts in a queue: in ten minutes where those are enough, else in the hour."""
    since, queue = now - HOUR, (phase, priority)
    rows = sql.rows(_Moment, _BEGAN, [since, since, *queue, MAX_ATTEMPTS, since, *queue])
    began = [start.at for start in rows if start.at]
    lately = [moment for moment in began if moment > now - SHORT]
    if MIN_STARTS <= len(lately) < len(began):
        return Starts(len(lately), SHORT.total_seconds())
    # All starts of the hour: the window begins with the first of them.
    window = max(MIN_WINDOW, now - min(began, default=now))
    return Starts(len(began), window.total_seconds())


_BEGAN = """
    SELECT started_at FROM (
        SELECT started_at FROM queuemgr_attempt
         WHERE ended_at > %s AND started_at > %s AND phase = %s AND priority = %s
         ORDER BY ended_at DESC LIMIT %s) AS ended
    UNION ALL
    SELECT started_at FROM queuemgr_lease
     WHERE started_at > %s AND phase = %s AND priority = %s
"""
"""Start times of what ended lately or runs."""


@dataclass(frozen=True, slots=True)
class StepPace:
    """Seconds a step runs, and seconds work waits for it to start: medians."""

    runs: float
    waits: float


def step_paces() -> dict[tuple[str, str], StepPace]:
    """By phase and step, of the successful ones among the last attempts."""
    lately = Attempt.objects.order_by("-id").values_list(
        "phase", "step", "outcome", "due_at", "started_at", "ended_at"
    )[:RUN_TIMES_OF]
    runs, waits = defaultdict(list), defaultdict(list)
    for phase, step, outcome, due_at, started_at, ended_at in lately:
        if outcome == Outcome.DONE:
            runs[phase, step].append((ended_at - started_at).total_seconds())
            waits[phase, step].append((started_at - (due_at or started_at)).total_seconds())
    return {place: StepPace(median(runs[place]), median(waits[place])) for place in runs}


class Throughput(NamedTuple):
    """Measured over so many seconds: executions that finished a step or ended, by phase."""

    seconds: float
    executions: Mapping[str, int]


_LATELY = """
    SELECT phase, execution_id, outcome, ended_at FROM queuemgr_attempt
     WHERE ended_at > %s ORDER BY ended_at DESC LIMIT %s
"""
_FIRST = f"SELECT MIN(ended_at) FROM ({_LATELY}) AS lately"
_MOVED = f"""
    SELECT phase, COUNT(DISTINCT execution_id) FROM ({_LATELY}) AS lately
     WHERE outcome IN ('done', 'skipped', 'failed') GROUP BY phase
"""


class _Moved(NamedTuple):
    phase: str
    executions: int


def throughput(now: datetime) -> Throughput:
    """The rates of the last hour."""
    window = [now - HOUR, MAX_ATTEMPTS]
    (first,) = sql.rows(_Moment, _FIRST, window)
    if first.at is None:
        return Throughput(0.0, {})
    seconds = max(MIN_WINDOW, now - first.at).total_seconds()
    moved = {row.phase: row.executions for row in sql.rows(_Moved, _MOVED, window)}
    return Throughput(seconds, moved)
