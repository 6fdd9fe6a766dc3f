"""The job that rolls attempts up into statistics by minute, so that pages and metrics count no attempts.

A minute is rolled up once it is over. The last few are checked again, since an attempt is committed a
moment after its `ended_at`. Rolling up a minute twice changes nothing, and what a minute gains is added
to the totals of all time in the same transaction: these only grow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from django.db.models import Count, QuerySet, Sum
from django.db.models.functions import TruncMinute

from queuemgr.base import histogram, transaction
from queuemgr.base.config import queue_settings
from queuemgr.base.meters import Amounts, amounts_read
from queuemgr.models import ALL_TIME, Attempt, MinuteStats, MinuteStatsQuerySet, PeriodicJob

JOB = "minutes"
MINUTE = timedelta(minutes=1)

GRACE = timedelta(seconds=10)
"""How long after its end a minute is rolled up: longer than attempts take to be committed."""

RECHECKED = timedelta(minutes=3)
"""How far back minutes are checked again, for attempts that took longer to be committed."""

PENDING_READ = 5_000
"""Attempts that a page reads because they are not rolled up yet, in some 50 ms."""

FAR = datetime(9999, 1, 1, tzinfo=UTC)

ROWS_AT_A_TIME = 20_000
"""Attempts read for one transaction, and the rest of its last minute."""

ROWS_A_RUN = 100_000
"""Attempts after which a run leaves the rest to the next, so that ticks need not wait long: at most 10 s
on an overloaded machine. Every half minute that is 3,300 a second."""


SUMS = ("attempts", "cost", "used", "waited", "ran")
"""What rows have beside their kind."""


class Kind(NamedTuple):
    """The key of a row: what the attempts counted in it have in common."""

    minute: datetime
    phase: str
    priority: int
    outcome: str
    error_kind: str


Rows = dict[Kind, MinuteStats]


class Span(NamedTuple):
    """Whole minutes, from the first to before the last."""

    begins: datetime
    ends: datetime


def since(start: datetime) -> MinuteStatsQuerySet:
    """The minutes from `start` on, as far as they are rolled up: attempts, no anomalies."""
    return MinuteStats.objects.by_minute().attempts_only().filter(minute__gte=start)


def roll_up(now: datetime) -> int:
    """Roll up the minutes that are over; returns how many attempts were counted.

    Oldest first; what exceeds `ROWS_A_RUN` attempts is left to the next run, and minutes too old to be
    kept are not rolled up.
    """
    over = whole_minute(now - GRACE)
    counted = sum(_roll(span) for span in _changed(over))
    while counted < ROWS_A_RUN and (span := _next(over)):
        counted += _roll(span)
    return counted


def rolled_up_to() -> datetime | None:
    """The end of the last minute rolled up; None when there is none."""
    rolled = MinuteStats.objects.by_minute().attempts_only().order_by("-minute")
    last = rolled.values_list("minute", flat=True).first()
    return last + MINUTE if last else None


def complete_to() -> datetime | None:
    """Before this, every attempt that ended is in the minutes rolled up; None when there are none."""
    rolled = rolled_up_to()
    return rolled - RECHECKED if rolled else None


def counted_to(now: datetime) -> datetime:
    """Every attempt that ended before this is in the statistics, or too old for them."""
    begins = max(_oldest_kept(now), rolled_up_to() or ALL_TIME)
    pending = _ended(begins, now).order_by("ended_at").values_list("ended_at", flat=True).first()
    settled = now - GRACE - RECHECKED - MINUTE
    return min(pending or settled, settled)


def pending(since: datetime) -> list[MinuteStats]:
    """What ended since the last minute that was rolled up, and since then, counted but not stored. Of more
    than `PENDING_READ` attempts without how long they waited and ran: a page would have to wait for that."""
    begins = max(rolled_up_to() or ALL_TIME, since)
    ended = _ended(begins, FAR)
    if ended.order_by("ended_at")[PENDING_READ:].exists():
        return [_row(kind, attempts, cost) for kind, attempts, cost in _grouped(ended)]
    return list(_count(Span(begins, FAR)).values())


def _grouped(ended: QuerySet[Attempt]) -> Iterator[tuple[Kind, int, int]]:
    """The kinds of these attempts, and of each how many and the requests they spent."""
    minutes = ended.order_by().annotate(minute=TruncMinute("ended_at", tzinfo=UTC))
    for *kind, attempts, cost in minutes.values_list(*Kind._fields).annotate(Count("pk"), Sum("cost")):
        yield Kind(*kind), attempts, cost


def oldest_pending() -> datetime | None:
    """When the first attempt ended that is not rolled up yet; None when there is none."""
    ended = Attempt.objects.filter(ended_at__gte=rolled_up_to() or ALL_TIME).order_by("ended_at")
    return ended.values_list("ended_at", flat=True).first()


def prune(now: datetime, rows: int) -> int:
    """Delete expired minutes, so many rows a transaction; returns how many.

    The totals of all time stay, and so do the newest minutes rolled up: they say where the next roll-up
    starts, and which attempts are already in the totals.
    """
    oldest = min(_oldest_kept(now), complete_to() or now)
    old = MinuteStats.objects.by_minute().filter(minute__lt=oldest).order_by("minute")
    pruned = 0
    while some := list(old.values_list("pk", flat=True)[:rows]):
        pruned += MinuteStats.objects.filter(pk__in=some).delete()[0]
    return pruned


def whole_minute(moment: datetime) -> datetime:
    """The time at which the minute of a moment begins."""
    return moment.replace(second=0, microsecond=0)


def _oldest_kept(now: datetime) -> datetime:
    return whole_minute(now - timedelta(days=queue_settings().keep_minutes_days))


def _changed(over: datetime) -> list[Span]:
    """The minutes rolled up last that have more attempts now, or whose amounts were not counted. Fewer means
    that some were pruned."""
    rolled = rolled_up_to()
    if rolled is None:
        return []
    ends = min(rolled, over)
    spans = [Span(ends - n * MINUTE, ends - (n - 1) * MINUTE) for n in range(1, RECHECKED // MINUTE + 1)]
    stored, without = defaultdict[datetime, int](int), set[datetime]()
    for minute, attempts, used in since(spans[-1].begins).values_list("minute", "attempts", "used"):
        stored[minute] += attempts
        without.update([minute] if used is None else [])
    return [
        span
        for span in reversed(spans)
        if span.begins in without or _ended(*span).count() > stored[span.begins]
    ]


def _next(over: datetime) -> Span | None:
    """The next minutes not yet rolled up, from the first in which an attempt ended."""
    begins = max(_oldest_kept(over), rolled_up_to() or ALL_TIME)
    ended = _ended(begins, over).order_by("ended_at").values_list("ended_at", flat=True)
    first = ended.first()
    if first is None:
        return None
    later = ended[ROWS_AT_A_TIME : ROWS_AT_A_TIME + 1].first()
    return Span(whole_minute(first), whole_minute(later) + MINUTE if later else over)


def _ended(begins: datetime, ends: datetime) -> QuerySet[Attempt]:
    return Attempt.objects.filter(ended_at__gte=begins, ended_at__lt=ends)


def _roll(span: Span) -> int:
    """Count the attempts of a span and store what was not stored yet; returns how many there are."""
    counted = _count(span)
    _store(span, counted)
    return sum(row.attempts for row in counted.values())


def _count(span: Span) -> Rows:
    """Count the attempts of a span, in one statement and outside of a transaction."""
    counted: Rows = {}
    columns = (
        "phase", "priority", "outcome", "error_kind", "cost", "uses", "due_at", "leased_at", "started_at",
        "ended_at",
    )  # fmt: skip
    attempts = _ended(*span).order_by().values_list(*columns, named=True)
    for attempt in attempts.iterator(5000):
        minute = whole_minute(attempt.ended_at)
        kind = Kind(minute, attempt.phase, attempt.priority, attempt.outcome, attempt.error_kind)
        row = counted.get(kind) or counted.setdefault(kind, _row(kind))
        row.attempts += 1
        row.cost += attempt.cost
        row.used = _summed(row.used, amounts_read(attempt.uses))
        waited = attempt.started_at - (attempt.due_at or attempt.leased_at)
        histogram.count_into(row.waited, waited.total_seconds())
        histogram.count_into(row.ran, (attempt.ended_at - attempt.started_at).total_seconds())
    return counted


@transaction.atomic
def _store(span: Span, counted: Rows) -> None:
    """Write what is new, one process at a time: the second finds it stored and adds nothing."""
    PeriodicJob.objects.get_or_create(name=JOB, defaults={"ran_at": ALL_TIME})
    PeriodicJob.objects.select_for_update().get(name=JOB)
    stored = _read(since(span.begins).filter(minute__lt=span.ends))
    grown = {k: row for k, row in counted.items() if k not in stored or _has_more(row, stored[k])}
    totals = _read(MinuteStats.objects.all_time().attempts_only()) if grown else {}
    changed: Rows = {}
    for kind, row in grown.items():
        all_time = kind._replace(minute=ALL_TIME)
        total = changed.setdefault(all_time, totals.get(all_time) or _row(all_time))
        _add(total, row, 1)
        if kind in stored:
            _add(total, stored[kind], -1)
    MinuteStats.objects.bulk_create(
        [*grown.values(), *changed.values()], batch_size=500, update_conflicts=True,
        unique_fields=Kind._fields, update_fields=SUMS,
    )  # fmt: skip


def _row(kind: Kind, attempts: int = 0, cost: int = 0) -> MinuteStats:
    empty = histogram.empty
    values = {"attempts": attempts, "cost": cost, "used": {}, "waited": empty(), "ran": empty()}
    return MinuteStats(**kind._asdict(), **values)


def _has_more(row: MinuteStats, stored: MinuteStats) -> bool:
    """Whether there are attempts that are not stored, or amounts that a release did not count."""
    unseen = stored.used is None and row.attempts == stored.attempts
    return row.attempts > stored.attempts or unseen


def _summed(one: Amounts | None, other: Amounts | None, sign: int = 1) -> dict[str, int]:
    one, other = one or {}, other or {}
    return {meter: one.get(meter, 0) + sign * other.get(meter, 0) for meter in {**one, **other}}


def _add(total: MinuteStats, row: MinuteStats, sign: int) -> None:
    total.attempts += sign * row.attempts
    total.cost += sign * row.cost
    total.used = _summed(total.used, row.used, sign)
    total.waited = [a + sign * b for a, b in zip(total.waited, row.waited, strict=True)]
    total.ran = [a + sign * b for a, b in zip(total.ran, row.ran, strict=True)]


def _read(rows: MinuteStatsQuerySet) -> Rows:
    """These rows by kind, without their ids: they are written by their kind."""
    values = rows.values(*Kind._fields, *SUMS)
    return {Kind(*(row[name] for name in Kind._fields)): MinuteStats(**row) for row in values}
