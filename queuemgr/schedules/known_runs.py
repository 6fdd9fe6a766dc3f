"""What became before of due times that are looked at now: a clock that was set back comes to them again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import QuerySet

from queuemgr.models import RunOutcome, Schedule, ScheduledRun

Span = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class KnownRuns:
    """The outcomes of due times, by schedule and time, and the spans of those that were skipped together."""

    outcomes: Mapping[tuple[int, datetime], str] = field(default_factory=dict)
    together: Mapping[int, Sequence[Span]] = field(default_factory=dict)

    def outcome(self, schedule: int, at: datetime) -> str | None:
        return RunOutcome.SKIPPED if self._span(schedule, at) else self.outcomes.get((schedule, at))

    def end(self, schedule: int, at: datetime) -> datetime | None:
        """The last of the due times that something is known of together with this one; None: nothing is."""
        if span := self._span(schedule, at):
            return span[1]
        return at if (schedule, at) in self.outcomes else None

    def _span(self, schedule: int, at: datetime) -> Span | None:
        return next((span for span in self.together.get(schedule, ()) if span[0] <= at <= span[1]), None)


def read(
    schedules: Sequence[Schedule], due_times: set[datetime], left_out: Sequence[ScheduledRun]
) -> KnownRuns:
    """What is known of these due times of these schedules, and in the spans of what is to be left out."""
    if not due_times:
        return KnownRuns()
    of_these = ScheduledRun.objects.filter(schedule__in=[row.pk for row in schedules])
    latest = max([*due_times, *(run.until for run in left_out if run.until)])
    skipped = of_these.filter(outcome=RunOutcome.SKIPPED, until__gte=min(due_times), due_at__lte=latest)
    together = defaultdict[int, list[Span]](list)
    for schedule, first, last in skipped.values_list("schedule", "due_at", "until"):
        together[schedule].append((first, last or first))
    outcomes = _outcomes(of_these.filter(due_at__in=due_times))
    found = KnownRuns(outcomes, together)
    for run in left_out:
        if run.until and found.end(run.schedule_id, run.due_at):
            span = (run.due_at, run.until)
            outcomes |= _outcomes(ScheduledRun.objects.filter(schedule=run.schedule_id, due_at__range=span))
    return found


def _outcomes(rows: QuerySet[ScheduledRun]) -> dict[tuple[int, datetime], str]:
    found = rows.values_list("schedule", "due_at", "outcome")
    return {(schedule, at): outcome for schedule, at, outcome in found}
