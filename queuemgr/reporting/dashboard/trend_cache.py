"""A cache of the minute rollups of the last week: each process adds them up by hour, and reads what is new.

Minutes are rolled up in order and rewritten for a few minutes at most (`minute_stats`), so all but the newest
can be added up for good. A new process reads back `ROWS` rows at a time, newest first, and says how far it
has come: no page waits for a week of a busy fleet.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from threading import Lock

from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast

from queuemgr.base import process_state
from queuemgr.lifecycle import minute_stats
from queuemgr.models import MinuteStats
from queuemgr.reporting.dashboard import trends
from queuemgr.reporting.dashboard.trends import HOUR, MINUTE, Bucket, MinuteRow, Sum, Window, hour_of

ROWS = 6_000
"""Rows of older minutes read at a time, in less than a tenth of a second."""

WEEK = timedelta(days=7)
UNSETTLED = timedelta(minutes=10)
"""Minutes newer than the newest by less than this may change; they are read each time."""

STALE = timedelta(hours=6)
"""After so long without a read it is faster to start anew than to read all that is new at once."""

RECENT = timedelta(minutes=75)
"""How long sums by minute are kept."""


@dataclass
class Trends:
    """Sums by hour and, of the last of them, by minute, of all minutes from `since` to before `up_to`, as of
    `now`."""

    now: datetime
    since: datetime
    up_to: datetime
    by_hour: dict[Bucket, Sum] = field(default_factory=dict)
    by_minute: dict[Bucket, Sum] = field(default_factory=dict)
    newest: MinuteRow | None = None

    def is_of_this_database(self) -> bool:
        """Whether the newest row that was added up is still there: in a database restored from a backup it
        is not, or counts other work."""
        if self.newest is None:
            return True
        columns = self.newest._asdict()
        of_row = {name: columns[name] for name in MinuteRow._fields if name not in ("waited", "ran")}
        return MinuteStats.objects.filter(**of_row).exists()

    def take(self, rows: Sequence[MinuteRow]) -> None:
        trends.merge(self.by_hour, trends.fold(rows, hour_of))
        recent = [row for row in rows if row.minute > self.now - RECENT]
        trends.merge(self.by_minute, trends.fold(recent, lambda minute: minute))
        known = [self.newest] if self.newest else []
        self.newest = max([*known, *rows], key=lambda row: row.minute, default=None)

    def take_new(self) -> list[MinuteRow]:
        """Take the minutes since the last read that will not change; returns those that may."""
        rows = _rows(minute_stats.since(self.up_to).order_by("minute"))
        settled = max((row.minute for row in rows), default=self.up_to) - UNSETTLED
        self.take([row for row in rows if row.minute < settled])
        self.up_to = max(self.up_to, settled)
        return [row for row in rows if row.minute >= settled]

    def take_older(self) -> None:
        """Read up to `ROWS` older rows, ending at a whole minute."""
        older = minute_stats.since(self.now - WEEK).filter(minute__lt=self.since).order_by("-minute")
        rows = _rows(older[:ROWS])
        cut = rows[-1].minute if len(rows) == ROWS else None
        self.take([row for row in rows if row.minute != cut])
        self.since = cut + MINUTE if cut else self.now - WEEK

    def forget_older(self) -> None:
        hours, minutes = hour_of(self.now) - WEEK, self.now - RECENT
        self.by_hour = {bucket: one for bucket, one in self.by_hour.items() if bucket.at >= hours}
        self.by_minute = {bucket: one for bucket, one in self.by_minute.items() if bucket.at >= minutes}

    def windows(self) -> tuple[Window, ...]:
        """The last 60 minutes, 24 hours and 7 days, each with the one that is not over."""
        minute = self.now.replace(second=0, microsecond=0)
        return (
            self._window("1 h", self.by_minute, minute - 59 * MINUTE, MINUTE, 60),
            self._window("24 h", self.by_hour, hour_of(self.now) - 23 * HOUR, HOUR, 24),
            self._window("7 d", self.by_hour, hour_of(self.now) - 167 * HOUR, 4 * HOUR, 42),
        )

    def _window(
        self, name: str, buckets: dict[Bucket, Sum], start: datetime, each: timedelta, count: int
    ) -> Window:
        inside = {bucket: one for bucket, one in buckets.items() if bucket.at >= start}
        starts = [start + number * each for number in range(count)]
        bars = trends.bars(inside, starts, each)
        return Window(name, start, trends.speeds(inside), bars, complete_since=max(start, self.since))


_lock = Lock()
_memory: Trends | None = None


def forget() -> None:
    global _memory
    with _lock:
        _memory = None


process_state.register(forget)


def recent(now: datetime) -> Trends:
    """The last week as far as it is read: whether what is cached is of this database, what is new, what is
    older, and what is not rolled up yet of the last hour, this minute included."""
    global _memory
    with _lock:
        memory = _memory if _memory and _may_continue(_memory, now) else _fresh(now)
        memory.now = now
        new = memory.take_new()
        memory.take_older()
        memory.forget_older()
        _memory = memory
        shown = replace(memory, by_hour=dict(memory.by_hour), by_minute=dict(memory.by_minute))
    shown.take([*new, *map(_not_rolled_up, minute_stats.pending(now - HOUR))])
    return shown


def _not_rolled_up(row: MinuteStats) -> MinuteRow:
    return MinuteRow(*(getattr(row, name) for name in MinuteRow._fields))


def _may_continue(memory: Trends, now: datetime) -> bool:
    return now - memory.up_to < STALE and memory.is_of_this_database()


def _fresh(now: datetime) -> Trends:
    """Nothing taken yet. It starts at the last rolled-up minute, which may be before now."""
    begins = min(now, minute_stats.rolled_up_to() or now) - RECENT
    return Trends(now, since=begins, up_to=begins)


def _rows(minutes: QuerySet[MinuteStats]) -> list[MinuteRow]:
    """The rows, their histograms parsed as one text: several times faster than one by one."""
    columns = [*MinuteRow._fields[:-2], "waited_text", "ran_text"]
    as_text = {f"{name}_text": Cast(name, TextField()) for name in ("waited", "ran")}
    rows = list(minutes.annotate(**as_text).values_list(*columns))
    waited, ran = (json.loads(f"[{','.join(row[place] for row in rows)}]") for place in (-2, -1))
    return [MinuteRow(*(*row[:-2], one, other)) for row, one, other in zip(rows, waited, ran, strict=True)]
