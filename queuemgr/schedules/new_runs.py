"""The executions of due times: made, inserted, and what became of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import Exists, OuterRef

from queuemgr.base import sql
from queuemgr.base.errors import QueueFull, SluiceError
from queuemgr.base.redaction import clean
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import NewExecution
from queuemgr.lifecycle import enqueue
from queuemgr.lifecycle.enqueue import Unrouted, new_execution
from queuemgr.models import Execution, RunOutcome, Schedule, ScheduledRun
from queuemgr.schedules.decide import LONGEST_REASON, Due
from queuemgr.schedules.jitter import jitter_of
from queuemgr.scheduling import routes


@dataclass(frozen=True, slots=True)
class NewRun:
    """The execution of a due time, not inserted yet; or why there is none."""

    schedule: Schedule
    due_at: datetime
    execution: Unrouted | None
    reason: str = ""
    requested_by: str = ""


def key_of(schedule: str, due_at: datetime) -> str:
    """The key of the execution of a due time, as `schedule:nightly@2026-12-01T03:00:00Z`."""
    at = due_at.astimezone(UTC).replace(tzinfo=None)
    return f"schedule:{schedule}@{at.isoformat()}Z"


def made(due: Due, now: datetime) -> list[NewRun]:
    """The executions of the due times of a schedule. It asks rules of the flow: code of an application."""
    return [new_run(due.schedule, at, now) for at in due.enqueue]


def new_run(row: Schedule, due_at: datetime, now: datetime, requested_by: str = "") -> NewRun:
    start = due_at + jitter_of(row.name, due_at, row.jitter)
    intake = NewExecution(key_of(row.name, due_at), row.payload)
    try:
        execution = new_execution(row.flow, intake, row.priority, start if start > now else None)
        routes.check_fits(execution.kind)
    except SluiceError as error:
        return NewRun(row, due_at, None, _reason(error), requested_by)
    return NewRun(row, due_at, execution, "", requested_by)


def insert(runs: Sequence[NewRun], now: datetime) -> list[ScheduledRun]:
    """Insert the executions of these, in the caller's transaction; returns a run for each, not stored yet."""
    by_flow: dict[str, list[NewRun]] = defaultdict(list)
    for run in runs:
        by_flow[run.schedule.flow].append(run)
    return [stored for flow, several in by_flow.items() for stored in _insert_of(flow, several, now)]


def _insert_of(flow: str, runs: Sequence[NewRun], now: datetime) -> list[ScheduledRun]:
    ids: dict[str, int] = {}
    reasons: dict[str, str] = {}
    refused = ""
    for start in range(0, len(runs), enqueue.ROWS_PER_STATEMENT):
        executions = [
            run.execution for run in runs[start : start + enqueue.ROWS_PER_STATEMENT] if run.execution
        ]
        if executions and not refused:
            refused = _insert_some(executions, reasons)
            keys = [execution.row.key for execution in executions]
            ids.update(Execution.objects.filter(flow=flow, key__in=keys).values_list("key", "pk"))
    return [_recorded(run, ids, reasons, refused, now) for run in runs]


def _insert_some(executions: Sequence[Unrouted], reasons: dict[str, str]) -> str:
    """Why some of them were refused, if any was; into `reasons`, by key, those whose unique key is held."""
    try:
        done = enqueue.insert(enqueue.on_routes(executions, {execution.kind for execution in executions}))
    except QueueFull as full:  # what fitted is inserted
        return _reason(full)
    for key, holder in done.instead.items():
        reasons[key] = clean(f"{holder} has its unique key")[:LONGEST_REASON]
    return ""


def _recorded(
    run: NewRun, ids: Mapping[str, int], reasons: Mapping[str, str], refused: str, now: datetime
) -> ScheduledRun:
    key = run.execution.row.key if run.execution else ""
    execution = ids.get(key)
    reason = "" if execution else run.reason or reasons.get(key) or refused
    return ScheduledRun(
        schedule=run.schedule, due_at=run.due_at, decided_at=now, execution_id=execution, reason=reason,
        outcome=RunOutcome.ENQUEUED if execution else RunOutcome.SKIPPED, requested_by=run.requested_by,
    )  # fmt: skip


def _reason(error: SluiceError) -> str:
    return clean(str(error))[:LONGEST_REASON] or type(error).__name__


_NOTE_ENDS = """
    UPDATE queuemgr_scheduledrun SET ended_at = e.finished_at, ended_as = e.state
      FROM queuemgr_execution e
     WHERE e.id = queuemgr_scheduledrun.execution_id AND e.finished_at IS NOT NULL
       AND queuemgr_scheduledrun.outcome = 'enqueued' AND queuemgr_scheduledrun.ended_at IS NULL
"""


def note_ends(now: datetime | None = None) -> None:
    """Note in the runs how their executions ended. One whose execution was deleted has ended, too."""
    sql.run(_NOTE_ENDS)
    there = Execution.objects.filter(pk=OuterRef("execution_id"))
    running = ScheduledRun.objects.filter(outcome=RunOutcome.ENQUEUED, ended_at__isnull=True)
    running.filter(~Exists(there)).update(ended_at=now or database_now())
