"""Due times that are left out one behind the other, for the same reason, are one run with a count.

A schedule of every minute whose run takes a day, or that is paused for a month, would else fill the table
with rows that say the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby

from django.db.models import OuterRef, Subquery

from queuemgr.base.errors import BadInput
from queuemgr.models import RunOutcome, Schedule, ScheduledRun
from queuemgr.schedules.due_times import next_due
from queuemgr.schedules.plan import timing_of


def joined(runs: Iterable[ScheduledRun], rows: Sequence[Schedule]) -> list[ScheduledRun]:
    """Those of these runs that are to be inserted. The others have made the run before them longer, which is
    stored here if it is in the database. The schedules are locked by the caller."""
    by_time = sorted(runs, key=lambda run: (run.schedule_id, run.due_at))
    skipping = {run.schedule_id for run in by_time if run.outcome == RunOutcome.SKIPPED}
    last, anchors = _last_of(skipping), {row.pk: row.anchor_at for row in rows}
    new, longer = list[ScheduledRun](), dict[int, ScheduledRun]()
    for schedule, several in groupby(by_time, key=lambda run: run.schedule_id):
        before = last.get(schedule)
        for run in several:
            if before is not None and _continues(before, run, anchors.get(schedule)):
                _lengthen(before, run)
                if before.pk:
                    longer[before.pk] = before
            else:
                new.append(run)
                before = run
    if longer:
        ScheduledRun.objects.bulk_update(longer.values(), ["until", "times", "decided_at"], batch_size=500)
    return new


def _last_of(schedules: Iterable[int]) -> dict[int, ScheduledRun]:
    """The run of the latest due time of each of these."""
    if not (ids := list(schedules)):
        return {}
    last = ScheduledRun.objects.filter(schedule=OuterRef("pk")).order_by("-due_at").values("pk")[:1]
    keys = Schedule.objects.filter(pk__in=ids).order_by().values_list(Subquery(last), flat=True)
    found = ScheduledRun.objects.filter(pk__in=[pk for pk in keys if pk])
    return {run.schedule_id: run for run in found}


def _continues(before: ScheduledRun, run: ScheduledRun, anchor: datetime | None) -> bool:
    """Whether it was left out for the same reason, and nothing was due between the two."""
    same = (before.outcome, before.reason) == (run.outcome, run.reason)
    if not same or run.outcome != RunOutcome.SKIPPED or run.requested_by or before.requested_by:
        return False
    try:
        timing = timing_of(run.schedule.timing)
    except BadInput:
        return False
    return next_due(timing, before.until or before.due_at, anchor or run.due_at) == run.due_at


def _lengthen(before: ScheduledRun, run: ScheduledRun) -> None:
    before.until = run.until or run.due_at
    before.decided_at = run.decided_at
    both = before.times is not None and run.times is not None
    before.times = (before.times or 0) + (run.times or 0) if both else None
