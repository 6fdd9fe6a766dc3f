"""Works out when schedules are due next: new ones, those whose timing was changed, those whose run has ended,
and those whose due time was worked out by a clock that was set back since."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache

from django.db.models import Exists, F, OuterRef, QuerySet, Subquery

from queuemgr.base import sql, transaction
from queuemgr.base.errors import BadInput
from queuemgr.base.queue_database import connection
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import RunOutcome, Schedule, ScheduledRun
from queuemgr.schedules import timing as timings
from queuemgr.schedules.due_times import follows_the_end, next_due
from queuemgr.schedules.timing import Every, Once, Timing

logger = logging.getLogger(__name__)

ROWS_AT_A_TIME = 500

SET_BACK = timedelta(seconds=60)
"""A due time worked out so far in the future was so by a clock that is set back by now."""


@lru_cache(maxsize=20_000)
def timing_of(text: str) -> Timing:
    """The timing of a row. Raises `BadInput` for a text that nothing of ours wrote."""
    return timings.parse(text)


def plan_changed(now: datetime | None = None) -> int:
    """Plan the schedules that are new or whose timing was changed, from now on; returns how many."""
    changed = Schedule.objects.in_force().exclude(planned_for=F("timing"))
    return _each(changed, _plan_anew, now)


def follow_clock(now: datetime | None = None) -> int:
    """Plan again what was planned by a clock that has been set back since; returns how many. An interval is
    counted from now. Calendar times are those of the calendar, the last minute included: each that was run
    already is not run again."""
    limit = (now or database_now()) + SET_BACK
    return _each(Schedule.objects.in_force().filter(decided_at__gt=limit), _plan_after_step, now)


def follow_ends(now: datetime | None = None) -> int:
    """Plan the schedules that follow the end of their run, where it has ended; returns how many."""
    ended = Schedule.objects.in_force().filter(~HAS_OPEN_RUN, awaits_end=True)
    return _each(ended.annotate(last_end=LAST_END), _plan_after_end, now)


HAS_OPEN_RUN = Exists(
    ScheduledRun.objects.filter(schedule=OuterRef("pk"), outcome=RunOutcome.ENQUEUED, ended_at__isnull=True)
)
LAST_END = Subquery(
    ScheduledRun.objects.filter(schedule=OuterRef("pk"), outcome=RunOutcome.ENQUEUED)
    .order_by("-due_at")
    .values("ended_at")[:1]
)

Planner = Callable[[Schedule, Timing, datetime], None]


def _each(rows: QuerySet[Schedule], plan: Planner, now: datetime | None) -> int:
    if not rows.exists():
        return 0
    planned = 0
    while True:
        with transaction.atomic():
            locked = rows.select_for_update(skip_locked=True, of=("self",)).order_by("name")
            some = list(locked[:ROWS_AT_A_TIME])
            for row in some:
                _plan(row, plan, now or database_now())
            write(some)
        planned += len(some)
        if len(some) < ROWS_AT_A_TIME:
            return planned


def _plan(row: Schedule, plan: Planner, now: datetime) -> None:
    """Whatever is wrong with its timing, the others are planned."""
    try:
        plan(row, timing_of(row.timing), now)
    except (BadInput, ArithmeticError, ValueError) as error:
        logger.error("schedule %s is never due: %s", row, error)
        row.next_due_at, row.held_due_at, row.awaits_end = None, None, False
    row.planned_for, row.decided_at = row.timing, now


def _plan_anew(row: Schedule, timing: Timing, now: datetime) -> None:
    """The due time of `once` stays though it has passed: what is late is a misfire."""
    row.anchor_at, row.awaits_end = now, False
    row.next_due_at = timing.at if isinstance(timing, Once) else next_due(timing, now, now)


def _plan_after_step(row: Schedule, timing: Timing, now: datetime) -> None:
    """What is in force since less than a minute is not due before that."""
    if isinstance(timing, Every):
        row.anchor_at = now
    anchor, after = row.anchor_at or now, now - SET_BACK
    if not row.awaits_end:
        row.next_due_at = next_due(timing, anchor if after < anchor <= now else after, anchor)


def _plan_after_end(row: Schedule, timing: Timing, now: datetime) -> None:
    if row.awaits_end and follows_the_end(timing):
        ended: datetime | None = getattr(row, "last_end", None)  # annotated by `follow_ends`
        row.anchor_at = min(ended or now, now)
        row.next_due_at = next_due(timing, row.anchor_at, row.anchor_at)
    row.awaits_end = False


STORED = ("planned_for", "anchor_at", "next_due_at", "decided_at", "held_due_at", "awaits_end")
_FIELDS = {name: Schedule._meta.get_field(name) for name in ("id", *STORED)}


def write(rows: Sequence[Schedule]) -> None:
    """Write what was planned of these rows, in one statement. PostgreSQL reads one array a column faster than
    a list of values, whose marks the driver has to count."""
    if not rows:
        return
    columns = [[getattr(row, name) for row in rows] for name in _FIELDS]
    if connection.vendor == "postgresql":
        arrays = ", ".join(f"%s::{_kind(name)}[]" for name in _FIELDS)
        planned, parameters = f"unnest({arrays})", columns
    else:
        marks = f"({', '.join(['%s'] * len(_FIELDS))})"
        planned = f"(VALUES {', '.join([marks] * len(rows))})"
        parameters = [value for row in zip(*columns, strict=True) for value in row]
    names = ", ".join(f"column{number}" for number in range(1, len(_FIELDS) + 1))
    alias = f"planned ({names})" if connection.vendor == "postgresql" else "planned"
    assigned = ", ".join(f"{name} = planned.column{number}" for number, name in enumerate(STORED, start=2))
    sql.run(
        f"UPDATE queuemgr_schedule SET {assigned} FROM {planned} AS {alias} "
        "WHERE queuemgr_schedule.id = planned.column1",
        parameters,
    )


def _kind(name: str) -> str:
    return "bigint" if name == "id" else str(_FIELDS[name].db_type(connection))
