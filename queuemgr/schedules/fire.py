"""Enqueues what schedules are due: the execution of a due time, the run that records it and the next due time
are stored in one transaction, some hundred schedules at a time.

Whoever runs this may do so at once with others, and may die at any moment: rows are locked, what was decided
is stored only while the row is as it was read, and of one schedule and due time there is one run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.db.models import Min

from queuemgr.base import transaction
from queuemgr.base.config import queue_settings
from queuemgr.base.errors import BadInput
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import all_flows
from queuemgr.models import RunOutcome, Schedule, ScheduledRun
from queuemgr.schedules import known_runs, left_out, new_runs, plan
from queuemgr.schedules.decide import Due, due_of
from queuemgr.schedules.known_runs import KnownRuns
from queuemgr.schedules.new_runs import NewRun

logger = logging.getLogger(__name__)

ROWS_AT_A_TIME = 500
RUNS_AT_A_TIME = 1000
"""Executions of one transaction, about: one schedule alone may make up for so many as `misfires.MOST_RUN`."""

MOST_SECONDS = 10.0
"""A tick has other things to do: what is left after so long is for the next."""


def grace() -> timedelta:
    """How late a due time may be looked at and still count as on time."""
    return timedelta(seconds=max(60.0, 3 * queue_settings().poll_interval))


def run_due(now: datetime | None = None) -> int:
    """Enqueue everything that schedules are due, and plan what is due next; returns how many were enqueued.

    `now` is for simulations: the database's time, if it is not given.
    """
    plan.plan_changed(now)
    plan.follow_clock(now)
    new_runs.note_ends(now)
    plan.follow_ends(now)
    until = time.monotonic() + MOST_SECONDS
    enqueued = 0
    for find in (_due, _held):
        while time.monotonic() < until:
            looked_at, done = _fire(find(now or database_now()), now)
            enqueued += done
            if not looked_at:
                break
    return enqueued


def _due(now: datetime) -> list[Schedule]:
    """Those of flows that this process knows: a process of another release may know the others."""
    rows = Schedule.objects.in_force().filter(next_due_at__lte=now, flow__in=_known_flows())
    return list(rows.order_by("name")[:ROWS_AT_A_TIME])


def _held(now: datetime) -> list[Schedule]:
    """Those with a run that waited for the end of another, which has come."""
    held = Schedule.objects.in_force().filter(held_due_at__isnull=False, flow__in=_known_flows())
    return [row for row in held.filter(~plan.HAS_OPEN_RUN)[:ROWS_AT_A_TIME] if not row.is_paused(now)]


def _known_flows() -> list[str]:
    return [flow.name for flow in all_flows()]


def _fire(rows: Sequence[Schedule], now: datetime | None) -> tuple[int, int]:
    """How many of these were stored, and how many executions of them were enqueued.

    Rules of flows are code of applications: they are asked before the transaction.
    """
    if not rows:
        return 0, 0
    decided_at = now or database_now()
    open_since = _open_since(rows)
    allowed = grace()
    due = _not_too_many(_decided(row, decided_at, open_since.get(row.pk), allowed) for row in rows)
    known = _known_runs(due)
    due = [one.without(known) for one in due]
    made = new_runs.made(due, decided_at)
    with transaction.atomic():
        same = _unchanged([one.schedule for one in due])
        kept = [one for one in due if one.schedule.pk in same]
        runs = [run for one in kept for run in made[one.schedule.pk]]
        _forget_missed(runs, known)
        enqueued = _store(kept, runs, decided_at)
    return len(kept), enqueued


def _decided(row: Schedule, now: datetime, open_since: datetime | None, allowed: timedelta) -> Due:
    """What is to be done for one. Whatever is wrong with its timing, the others are run."""
    try:
        return due_of(row, now, open_since=open_since, grace=allowed)
    except (BadInput, ArithmeticError, ValueError) as error:
        logger.error("schedule %s is never due any more: %s", row, error)
        return Due(row, (), (), None, None, awaits_end=False)


def _not_too_many(due: Iterable[Due]) -> list[Due]:
    """As many of these as one transaction is to enqueue; what is left is looked at again."""
    taken, runs = list[Due](), 0
    for one in due:
        taken.append(one)
        runs += len(one.enqueue)
        if runs >= RUNS_AT_A_TIME:
            break
    return taken


def _store(due: Sequence[Due], runs: Sequence[NewRun], now: datetime) -> int:
    enqueued = new_runs.insert(runs, now)
    rows = [*enqueued, *(run for one in due for run in one.not_run)]
    rows = left_out.joined(rows, [one.schedule for one in due])
    ScheduledRun.objects.bulk_create(rows, batch_size=ROWS_AT_A_TIME)
    for one in due:
        row = one.schedule
        row.next_due_at, row.held_due_at = one.next_due_at, one.held_due_at
        row.awaits_end, row.decided_at = one.awaits_end, now
    plan.write([one.schedule for one in due])
    return sum(run.outcome == RunOutcome.ENQUEUED for run in enqueued)


def _open_since(rows: Iterable[Schedule]) -> dict[int, datetime]:
    """The due time of the first run that has not ended, by schedule."""
    running = ScheduledRun.objects.filter(
        schedule__in=[row.pk for row in rows], outcome=RunOutcome.ENQUEUED, ended_at__isnull=True
    )
    return dict(running.order_by().values_list("schedule").annotate(Min("due_at")))


def _known_runs(due: Sequence[Due]) -> KnownRuns:
    asked = {at for one in due for at in (*one.enqueue, *(run.due_at for run in one.not_run))}
    not_run = [run for one in due for run in one.not_run]
    return known_runs.read([one.schedule for one in due], asked, not_run)


def _forget_missed(runs: Sequence[NewRun], known: KnownRuns) -> None:
    """A due time that was missed by a clock set forward is run when it comes again."""
    run_now = [(run.schedule.pk, run.due_at) for run in runs]
    missed = [one for one in run_now if one in known.outcomes]
    if missed:
        ScheduledRun.objects.filter(
            schedule__in=[schedule for schedule, _ in missed], due_at__in=[at for _, at in missed],
            outcome=RunOutcome.MISSED,
        ).delete()  # fmt: skip


READ = (
    "next_due_at", "held_due_at", "awaits_end", "timing", "flow", "payload", "priority", "misfire",
    "misfire_limit", "overlap", "jitter", "paused_at", "paused_until", "retired_at",
)  # fmt: skip
"""What a decision rests on."""


def _unchanged(rows: Sequence[Schedule]) -> set[int]:
    """Lock those of these rows that nobody else holds and that are as they were read."""
    read = {row.pk: row for row in rows}
    locked = Schedule.objects.select_for_update(skip_locked=True).filter(pk__in=read).order_by("name")
    return {
        row.pk for row in locked if all(getattr(row, name) == getattr(read[row.pk], name) for name in READ)
    }
