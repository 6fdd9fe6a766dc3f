"""What is to be done for one schedule whose time has come. Pure but for the rows it reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from queuemgr.models import RunOutcome, Schedule, ScheduledRun
from queuemgr.schedules import misfires, overlap
from queuemgr.schedules.due_times import DueTimes, follows_the_end, latest, next_due
from queuemgr.schedules.known_runs import KnownRuns
from queuemgr.schedules.plan import timing_of
from queuemgr.schedules.timing import Every, Timing

LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class Due:
    """What becomes of the due times of a schedule: those to be enqueued, and the runs that are not."""

    schedule: Schedule
    enqueue: tuple[datetime, ...]
    not_run: tuple[ScheduledRun, ...]
    next_due_at: datetime | None
    held_due_at: datetime | None
    awaits_end: bool

    def without(self, known: KnownRuns) -> Due:
        """Without the due times that something is known to have become of before; one that was only missed
        may be run now, and is not missed again. Of several together those stay that come after known ones."""
        pk = self.schedule.pk
        left = tuple(at for at in self.enqueue if known.outcome(pk, at) in (None, RunOutcome.MISSED))
        not_run = tuple(run for run in self.not_run if self._follows_what_is_known(run, known))
        return replace(self, enqueue=left, not_run=not_run)

    def _follows_what_is_known(self, run: ScheduledRun, known: KnownRuns) -> bool:
        """Whether anything of it is new; it then begins with that."""
        timing, at = timing_of(self.schedule.timing), run.due_at
        while (end := known.end(self.schedule.pk, at)) is not None:
            following = next_due(timing, end, self.schedule.anchor_at or end)
            if following is None or following > (run.until or run.due_at):
                return False
            at = following
        if at != run.due_at:
            run.due_at, run.times = at, None
        if run.until == at:
            run.until, run.times = None, 1
        return True


def due_of(row: Schedule, now: datetime, *, open_since: datetime | None, grace: timedelta) -> Due:
    """What is to be done now. `open_since` is the due time of a run that has not ended."""
    timing = timing_of(row.timing)
    anchor = row.anchor_at or now
    first, is_due = row.next_due_at, row.next_due_at is not None and row.next_due_at <= now
    due = _due_times(row, timing, first, now, grace) if is_due and first is not None else DueTimes(())
    upcoming = next_due(timing, now, anchor) if is_due else first
    if row.is_paused(now):
        skipped = _paused(row, due, first, now)
        return Due(row, (), skipped, upcoming, row.held_due_at, awaits_end=False)
    missed = misfires.Decision(())
    if due.times and first is not None:
        missed = misfires.decide(due, first, now, policy=row.misfire, most=row.misfire_limit, grace=grace)
    chosen = overlap.decide(missed.run, row.overlap, is_running=open_since is not None, held=row.held_due_at)
    not_run = [_skipped(row, at, now, _overlaps(row, open_since)) for at in chosen.skipped]
    if missed.missed:
        not_run.append(_missed(row, missed.missed, missed.times, now))
    follows = follows_the_end(timing) and is_due and (bool(chosen.enqueue) or open_since is not None)
    return Due(row, chosen.enqueue, tuple(not_run), None if follows else upcoming, chosen.held, follows)


def _due_times(row: Schedule, timing: Timing, first: datetime, now: datetime, grace: timedelta) -> DueTimes:
    if follows_the_end(timing):
        return DueTimes((first,))
    period = timedelta(seconds=timing.seconds) if isinstance(timing, Every) else timedelta(minutes=1)
    most = misfires.how_many(row.misfire, row.misfire_limit, period, grace)
    return latest(timing, first, now, row.anchor_at or first, most)


def _overlaps(row: Schedule, open_since: datetime | None) -> str:
    if row.overlap == overlap.QUEUE_ONE:
        return "one run waits already for the end of the run before it"
    if open_since is None:
        return "a run of an earlier due time was enqueued at the same moment"
    return f"the run of {open_since:%Y-%m-%d %H:%M:%S} UTC had not ended"


def _paused(row: Schedule, due: DueTimes, first: datetime | None, now: datetime) -> tuple[ScheduledRun, ...]:
    if not due.times or first is None:
        return ()
    why = row.pause_sentence()
    if not due.has_earlier:
        return tuple(_skipped(row, at, now, why) for at in due.times)
    run = _skipped(row, first, now, why)
    run.until, run.times = due.times[-1], None
    return (run,)


def _skipped(row: Schedule, due_at: datetime, now: datetime, reason: str) -> ScheduledRun:
    return ScheduledRun(
        schedule=row, due_at=due_at, decided_at=now, outcome=RunOutcome.SKIPPED,
        reason=reason[:LONGEST_REASON],
    )  # fmt: skip


def _missed(row: Schedule, span: tuple[datetime, datetime], times: int | None, now: datetime) -> ScheduledRun:
    first, last = span
    late = "nothing ran schedules when it was due" if first == last else "nothing ran schedules meanwhile"
    return ScheduledRun(
        schedule=row, due_at=first, until=last if last != first else None, decided_at=now,
        outcome=RunOutcome.MISSED, reason=late, times=times,
    )  # fmt: skip
