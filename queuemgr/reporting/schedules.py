"""Schedules as commands, pages and the API show them: when they are due, how late, what became of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Max, Min, OuterRef, Q, Subquery

from queuemgr.base.budget_day import zone as zone_of
from queuemgr.base.config import queue_settings
from queuemgr.base.errors import BadInput
from queuemgr.base.redaction import masked
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import PRIORITY_NAMES
from queuemgr.models import Attempt, Execution, Schedule, ScheduledRun
from queuemgr.schedules.due_times import follows_the_end, upcoming
from queuemgr.schedules.plan import timing_of
from queuemgr.schedules.timing import Once

NEXT_RUNS = 10
LAST_RUNS = 20
MOST_NAMED = 5

SKIPPED_IN_A_ROW = 3
"""After so many runs that were not enqueued, one behind the other, a schedule needs a look."""


def late_bound() -> timedelta:
    """How late a due time may be before that is an alarm."""
    return timedelta(seconds=max(60.0, 6 * queue_settings().poll_interval))


def late_seconds(row: Schedule, now: datetime) -> float:
    """How long its due time has passed without a process that looked at it."""
    if row.next_due_at is None or row.retired_at is not None:
        return 0.0
    return max((now - row.next_due_at).total_seconds(), 0.0)


def state_of(row: Schedule, now: datetime) -> str:
    if row.retired_at is not None:
        return "retired"
    if row.is_paused(now):
        return "paused"
    if row.awaits_end:
        return "running"
    return "in force" if row.next_due_at else "finished"


def listed(rows: Sequence[Schedule] | None = None) -> list[dict[str, Any]]:
    """Every schedule, or these in their order, with its next due time and its last run."""
    now = database_now()
    chosen = list(Schedule.objects.all()) if rows is None else rows
    last = ScheduledRun.objects.filter(schedule=OuterRef("pk")).order_by("-due_at").values("pk")[:1]
    of_these = Schedule.objects.filter(pk__in=[row.pk for row in chosen])
    last_of = dict(of_these.annotate(last_run=Subquery(last)).values_list("pk", "last_run"))
    runs = ScheduledRun.objects.in_bulk([pk for pk in last_of.values() if pk])
    return [_fields(row, now) | {"last": _run(runs.get(last_of.get(row.pk) or 0))} for row in chosen]


def shown(
    row: Schedule, until: datetime | None = None, mask: Callable[[Any], Any] = masked
) -> dict[str, Any]:
    """One schedule with its next and its last runs, or the last before a moment; secrets are masked."""
    now = database_now()
    return {
        **_fields(row, now), "payload": mask(row.payload), "stated_by_code": mask(row.from_settings) or None,
        "next_runs": next_runs(row, now), "runs": last_runs(row, until),
    }  # fmt: skip


def _fields(row: Schedule, now: datetime) -> dict[str, Any]:
    return {
        "schedule": row.name, "flow": row.flow, "timing": row.timing,
        "priority": PRIORITY_NAMES[row.priority], "misfire": row.misfire, "misfire_limit": row.misfire_limit,
        "overlap": row.overlap, "jitter": row.jitter, "state": state_of(row, now),
        "paused": row.pause_sentence() if row.is_paused(now) else None, "by_code": row.is_stated,
        "next_due_at": row.next_due_at, "waits_since": row.held_due_at,
        "late_seconds": round(late_seconds(row, now), 1), "retired_at": row.retired_at,
    }  # fmt: skip


def next_runs(row: Schedule, now: datetime, count: int = NEXT_RUNS) -> list[datetime]:
    """When it is due next. Of one that follows the end of its run only the next is known."""
    if row.next_due_at is None or row.retired_at is not None:
        return []
    try:
        timing = timing_of(row.timing)
    except BadInput:
        return []
    if follows_the_end(timing) or isinstance(timing, Once):
        return [row.next_due_at]
    later = upcoming(timing, max(row.next_due_at, now), row.anchor_at or now, count - 1)
    return [row.next_due_at, *later]


def local_time(row: Schedule, at: datetime) -> str:
    """As `03:30 CET`, where the schedule's times are those of a zone other than UTC; else empty."""
    try:
        zone = getattr(timing_of(row.timing), "zone", "UTC")
    except BadInput:
        return ""
    return "" if zone == "UTC" else f"{at.astimezone(zone_of(zone)):%H:%M %Z}"


def last_runs(row: Schedule, until: datetime | None = None, count: int = LAST_RUNS) -> list[dict[str, Any]]:
    """What became of its last due times, or of the last before a moment, the latest first."""
    found = ScheduledRun.objects.filter(schedule=row).order_by("-due_at")
    runs = list((found.filter(due_at__lt=until) if until else found)[:count])
    ids = [run.execution_id for run in runs if run.execution_id]
    keys = dict(Execution.objects.filter(pk__in=ids).values_list("pk", "key"))
    seconds = _durations(ids)
    return [
        {
            **(_run(run) or {}),
            "key": keys.get(run.execution_id or 0),
            "seconds": seconds.get(run.execution_id or 0),
        }
        for run in runs
    ]


def _run(run: ScheduledRun | None) -> dict[str, Any] | None:
    if run is None:
        return None
    return {
        "execution": run.execution_id, "due_at": run.due_at, "until": run.until, "times": run.times,
        "outcome": run.outcome, "reason": run.reason or None,
        "ended_at": run.ended_at, "ended_as": run.ended_as or None,
        "late_seconds": round((run.decided_at - run.due_at).total_seconds(), 1),
        "requested_by": run.requested_by or None,
    }  # fmt: skip


def became(run: Mapping[str, Any]) -> str:
    """As `done`, `enqueued`, `skipped 12 times: the run of … had not ended`."""
    if not run["reason"]:
        return str(run["ended_as"] or run["outcome"])
    often = f" {run['times']:,} times" if run["until"] and run["times"] else ""
    return f"{run['outcome']}{often}: {run['reason']}"


def _durations(executions: Sequence[int]) -> dict[int, float]:
    """Seconds from the first start of each to the end of its last attempt."""
    spans = Attempt.objects.filter(execution__in=executions).order_by().values_list("execution")
    return {
        execution: round((ended - started).total_seconds(), 1)
        for execution, started, ended in spans.annotate(Min("started_at"), Max("ended_at"))
    }


def latest_due(now: datetime) -> tuple[str, float]:
    """The schedule whose due time has been waiting longest for a process to look at it, and for how many
    seconds; no name where none does."""
    row = Schedule.objects.in_force().filter(next_due_at__lte=now).order_by("next_due_at").first()
    return (row.name, late_seconds(row, now)) if row else ("", 0.0)


class Trouble(NamedTuple):
    """What needs a person's look: `bad` is what must not be, `note` what may be meant so."""

    level: str
    text: str
    which: str = ""


def troubles(now: datetime) -> list[Trouble]:
    """A due time that nobody looked at for too long, and schedules whose runs are all left out."""
    found = []
    name, late = latest_due(now)
    if late > late_bound().total_seconds():
        what = f"schedule {name} is due since {late:.0f} s, and no process has looked at it"
        found.append(Trouble("bad", what, f"late {name}"))
    many = skipping()
    for name, why in many[:MOST_NAMED]:
        found.append(Trouble("note", f"the last runs of schedule {name} were left out: {why}", name))
    if len(many) > MOST_NAMED:
        found.append(Trouble("note", f"so were those of {len(many) - MOST_NAMED} more schedules", "others"))
    return found


def skipping() -> list[tuple[str, str]]:
    """Schedules whose last due times were all left out, though nobody paused them, and why the last was. One
    run may stand for several due times that were skipped."""
    recent = ScheduledRun.objects.filter(schedule=OuterRef("pk")).order_by("-due_at")
    rows = Schedule.objects.in_force().filter(paused_at__isnull=True)
    several = Q(skipped__gte=SKIPPED_IN_A_ROW)
    rows = rows.annotate(
        skipped=Subquery(recent.filter(outcome="skipped").values("times")[:1]),
        last=Subquery(recent.values("outcome")[:1]),
        why=Subquery(recent.values("reason")[:1]),
    ).filter(last__in=NOT_RUN)  # fmt: skip
    one_each = Q()
    for number in range(1, SKIPPED_IN_A_ROW):
        rows = rows.annotate(**{f"run_{number}": Subquery(recent.values("outcome")[number : number + 1])})
        one_each &= Q(**{f"run_{number}__in": NOT_RUN})
    found = rows.filter(one_each | several & Q(last="skipped")).order_by("name")
    return list(found.values_list("name", "why"))


NOT_RUN = ("skipped", "missed")
