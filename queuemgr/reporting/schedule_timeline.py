"""Schedules over a span of time: what became of their due times, and which follow.

The span is cut into cells, and each cell says what is in it. So a schedule of every second costs as much as
one of every hour: of due times to come a few are worked out for each cell, and of those that passed the
latest `MOST_RUNS` of the span are counted in the database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from queuemgr.base import sql
from queuemgr.base.errors import BadInput
from queuemgr.base.queue_database import connection
from queuemgr.models import RunOutcome, Schedule, State
from queuemgr.reporting.schedules import late_bound
from queuemgr.schedules.due_times import follows_the_end, next_due
from queuemgr.schedules.plan import timing_of
from queuemgr.schedules.timing import Once, Timing

MOST_RUNS = 5000
"""Runs of one schedule that are counted in one span, the latest."""

MOST_DUE_IN_A_CELL = 3
"""After so many due times to come the others of the cell are not worked out."""

RUNS_BEFORE = 3
"""Runs before the span that are looked at: one of several due times may reach into it."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TICK = timedelta(microseconds=1)


class Zoom(NamedTuple):
    """How much is shown before and after a moment, and how long a cell is."""

    name: str
    each_side: timedelta
    cell: timedelta
    label_every: timedelta


ZOOMS = {
    zoom.name: zoom
    for zoom in (
        Zoom("hour", timedelta(hours=1), timedelta(minutes=1), timedelta(minutes=15)),
        Zoom("day", timedelta(hours=24), timedelta(minutes=30), timedelta(hours=6)),
        Zoom("week", timedelta(days=7), timedelta(hours=3), timedelta(days=1)),
    )
}

KINDS = {
    "failed": "failed",
    "overdue": "due, and no process has looked at it",
    "missed": "missed",
    "skipped": "skipped",
    "late": "run late",
    "running": "not ended",
    "ended": "cancelled or skipped by a person",
    "done": "done",
    "held": "waits for the end of the run before it",
    "due": "due",
    "paused": "due while it is paused: will be skipped",
}
"""What a due time may have become, the worst first: a cell is shown as the worst that is in it."""


@dataclass
class Cell:
    """What is in a cell: how often each kind, and the reason and the execution of one of the worst."""

    start: datetime
    end: datetime
    counts: Counter[str] = field(default_factory=Counter)
    more: bool = False
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return next(kind for kind in KINDS if kind in self.counts)

    @property
    def reason(self) -> str:
        return next((self.reasons[kind] for kind in KINDS if self.reasons.get(kind)), "")


@dataclass
class Line:
    """A schedule, with the cells that are not empty by their number."""

    schedule: Schedule
    cells: dict[int, Cell] = field(default_factory=dict)
    counted_from: datetime | None = None
    """Since when its runs are counted, where there were more than `MOST_RUNS`."""


@dataclass(frozen=True)
class Span:
    """The time that is shown: a zoom around a moment, cut at whole cells."""

    zoom: Zoom
    start: datetime

    @classmethod
    def around(cls, moment: datetime, zoom: Zoom) -> Span:
        return cls(zoom, EPOCH + (moment - EPOCH) // zoom.cell * zoom.cell - zoom.each_side)

    @property
    def end(self) -> datetime:
        return self.start + 2 * self.zoom.each_side

    @property
    def cells(self) -> int:
        return 2 * self.zoom.each_side // self.zoom.cell

    def number(self, moment: datetime) -> int:
        """The number of the cell that a moment is in; that of the first for one before it."""
        return min(max((moment - self.start) // self.zoom.cell, 0), self.cells - 1)

    def cell(self, line: Line, number: int) -> Cell:
        start = self.start + number * self.zoom.cell
        return line.cells.setdefault(number, Cell(start, start + self.zoom.cell))

    def holds(self, moment: datetime) -> bool:
        return self.start <= moment < self.end


def lines(schedules: Sequence[Schedule], span: Span, now: datetime) -> list[Line]:
    """What these schedules did and will do in the span."""
    by_id = {row.pk: Line(row) for row in schedules}
    _add_runs(by_id, span)
    for line in by_id.values():
        _add_due(line, span, now)
    return list(by_id.values())


class _Found(NamedTuple):
    """Runs of one schedule in one cell that became the same."""

    schedule: int
    cell: int
    outcome: str
    ended_as: str
    is_late: bool
    times: int
    first: datetime
    last: datetime
    reason: str | None


_RUNS = """
    (SELECT * FROM (
        SELECT schedule_id, due_at, until, times, decided_at, outcome, ended_as, reason
          FROM queuemgr_scheduledrun
         WHERE schedule_id = %s AND due_at >= {time} AND due_at < {time} ORDER BY due_at DESC LIMIT %s
    ) inside)
"""
_RUNS_BEFORE = """
    (SELECT * FROM (
        SELECT schedule_id, due_at, until, times, decided_at, outcome, ended_as, reason
          FROM queuemgr_scheduledrun
         WHERE schedule_id = %s AND due_at < {time} ORDER BY due_at DESC LIMIT %s
    ) before WHERE until >= {time})
"""
_GROUPED = """
    SELECT schedule_id, cell, outcome, ended_as, is_late, sum(coalesce(times, 1)), min(due_at),
           max(coalesce(until, due_at)), max(reason)
      FROM (SELECT schedule_id, due_at, until, times, outcome, ended_as, reason,
                   ({due} - {start}) / {cell} AS cell,
                   outcome = 'enqueued' AND {decided} - {due} > {late} AS is_late
              FROM ({runs}) runs) placed
     GROUP BY schedule_id, cell, outcome, ended_as, is_late
"""
_SECONDS = {
    "postgresql": "floor(extract(epoch FROM {0}))::bigint",
    "sqlite": "CAST(strftime('%%s', {0}) AS INTEGER)",
}


def _add_runs(by_id: Mapping[int, Line], span: Span) -> None:
    for found in _found(list(by_id), span):
        line, kind, first = by_id[found.schedule], _kind_of(found), span.number(found.first)
        for number in range(first, span.number(found.last) + 1):
            cell = span.cell(line, number)
            # a run that stands for several due times is shown as far as it reaches, and counted once
            cell.counts[kind] += found.times if number == first else 0
            if found.reason:
                cell.reasons[kind] = found.reason
    for line in by_id.values():
        if sum(cell.counts.total() for cell in line.cells.values()) >= MOST_RUNS:
            line.counted_from = min(cell.start for cell in line.cells.values())


def _found(ids: Sequence[int], span: Span) -> list[_Found]:
    if not ids:
        return []
    parts, parameters = [], []
    for pk in ids:
        parts += [_RUNS, _RUNS_BEFORE]
        parameters += [pk, span.start, span.end, MOST_RUNS, pk, span.start, RUNS_BEFORE, span.start]
    # SQLite takes no parentheses around the parts of a compound statement.
    strip = connection.vendor == "sqlite"
    runs = " UNION ALL ".join(part.strip()[1:-1] if strip else part for part in parts)
    seconds = _SECONDS[connection.vendor]
    statement = sql.typed(
        _GROUPED, runs=sql.typed(runs), due=seconds.format("due_at"), decided=seconds.format("decided_at"),
        start=str(int(span.start.timestamp())), cell=str(int(span.zoom.cell.total_seconds())),
        late=str(int(late_bound().total_seconds())),
    )  # fmt: skip
    return sql.rows(_Found, statement, parameters)


def _kind_of(found: _Found) -> str:
    if found.outcome != RunOutcome.ENQUEUED:
        return found.outcome
    if found.ended_as == State.FAILED:
        return "failed"
    if found.is_late:
        return "late"
    if not found.ended_as:
        return "running"
    return "done" if found.ended_as == State.DONE else "ended"


def _add_due(line: Line, span: Span, now: datetime) -> None:
    """Due times to come, and those that something still has to become of."""
    row = line.schedule
    if row.held_due_at is not None and span.holds(row.held_due_at):
        span.cell(line, span.number(row.held_due_at)).counts["held"] += 1
    first = row.next_due_at
    if first is None or row.retired_at is not None or first >= span.end:
        return
    if first <= now and span.holds(first):
        late = now - first > late_bound()
        span.cell(line, span.number(first)).counts["overdue" if late else "due"] += 1
    try:
        timing = timing_of(row.timing)
    except BadInput:
        return
    after = max(now, span.start - TICK)
    if first > after:
        at: datetime | None = first
    elif follows_the_end(timing) or isinstance(timing, Once):
        return
    else:
        at = next_due(timing, after, row.anchor_at or now)
    _add_upcoming(line, span, timing, at)


def _add_upcoming(line: Line, span: Span, timing: Timing, at: datetime | None) -> None:
    row = line.schedule
    while at is not None and at < span.end:
        cell = span.cell(line, span.number(at))
        cell.counts["paused" if row.is_paused(at) else "due"] += 1
        if follows_the_end(timing) or isinstance(timing, Once):
            return
        after = at
        if cell.counts["due"] + cell.counts["paused"] >= MOST_DUE_IN_A_CELL:
            after, cell.more = cell.end - TICK, True
        at = next_due(timing, after, row.anchor_at or at)
