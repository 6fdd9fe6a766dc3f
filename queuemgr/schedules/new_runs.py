"""The executions of due times: made, inserted, and what became of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from queuemgr.base import sql
from queuemgr.base.errors import QueueFull, SluiceError
from queuemgr.base.redaction import clean
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import NewExecution
from queuemgr.lifecycle import enqueue
from queuemgr.lifecycle.enqueue import Unrouted, new_execution
from queuemgr.models import UNSUCCESSFUL, Execution, RunOutcome, Schedule, ScheduledRun
from queuemgr.schedules.decide import LONGEST_REASON, Due
from queuemgr.schedules.jitter import jitter_of
from queuemgr.scheduling import routes
from queuemgr.scheduling.claims import RouteKind


@dataclass(frozen=True, slots=True)
class NewRun:
    """The execution of a due time, not inserted yet; or why there is none."""

    schedule: Schedule
    due_at: datetime
    execution: Unrouted | None
    reason: str = ""
    requested_by: str = ""


KEYS = "schedule:"
"""What the keys of their executions begin with."""


def key_of(schedule: str, due_at: datetime) -> str:
    """The key of the execution of a due time, as `schedule:nightly@2026-12-01T03:00:00Z`."""
    at = due_at.astimezone(UTC).replace(tzinfo=None)
    return f"{KEYS}{schedule}@{at.isoformat()}Z"


def made(due: Iterable[Due], now: datetime) -> dict[int, list[NewRun]]:
    """The executions of the due times of schedules, by schedule. It asks rules of flows, which are code of
    applications. What fits is looked up once for each kind of route."""
    kinds: Kinds = {}
    return {
        one.schedule.pk: [new_run(one.schedule, at, now, kinds=kinds) for at in one.enqueue] for one in due
    }


Kinds = dict[RouteKind, str]
"""Why no limit could ever hold work of a kind; empty: they do."""


def new_run(
    row: Schedule, due_at: datetime, now: datetime, *, kinds: Kinds | None = None, requested_by: str = ""
) -> NewRun:
    start = due_at + jitter_of(row.name, due_at, row.jitter)
    intake = NewExecution(key_of(row.name, due_at), row.payload)
    try:
        execution = new_execution(row.flow, intake, row.priority, start if start > now else None)
    except SluiceError as error:
        return NewRun(row, due_at, None, _reason(error), requested_by)
    never = _why_it_never_fits(execution.kind, {} if kinds is None else kinds)
    return NewRun(row, due_at, None if never else execution, never, requested_by)


def _why_it_never_fits(kind: RouteKind, kinds: Kinds) -> str:
    if kind not in kinds:
        try:
            routes.check_fits(kind)
            kinds[kind] = ""
        except SluiceError as error:
            kinds[kind] = _reason(error)
    return kinds[kind]


def insert(runs: Sequence[NewRun], now: datetime) -> list[ScheduledRun]:
    """Insert the executions of these, in the caller's transaction; returns a run for each, not stored yet."""
    by_flow: dict[str, list[NewRun]] = defaultdict(list)
    for run in runs:
        by_flow[run.schedule.flow].append(run)
    return [stored for flow, several in by_flow.items() for stored in _insert_of(flow, several, now)]


def _insert_of(flow: str, runs: Sequence[NewRun], now: datetime) -> list[ScheduledRun]:
    inserted = _Inserted()
    for start in range(0, len(runs), enqueue.ROWS_PER_STATEMENT):
        some = [run.execution for run in runs[start : start + enqueue.ROWS_PER_STATEMENT] if run.execution]
        if some and not inserted.refused:
            _insert_some(some, inserted)
    return [_recorded(run, inserted, now) for run in runs]


@dataclass
class _Inserted:
    """The ids of executions by key; the keys of others that are there instead of some; and why the rest was
    refused."""

    ids: dict[str, int] = field(default_factory=dict)
    instead: dict[str, str] = field(default_factory=dict)
    refused: str = ""

    def why_not(self, key: str) -> str:
        if key in self.instead:
            return clean(f"{self.instead[key]} has its unique key")[:LONGEST_REASON]
        there = f"there is {clean(key)} already, which is no run of this schedule"
        return self.refused or there[:LONGEST_REASON]


def _insert_some(executions: Sequence[Unrouted], inserted: _Inserted) -> None:
    rows = enqueue.on_routes(executions, {execution.kind for execution in executions})
    try:
        inserted.instead.update(enqueue.insert(rows).instead)
    except QueueFull as full:  # what fitted is inserted
        inserted.refused = _reason(full)
    inserted.ids.update((row.key, row.pk) for row in rows if row.pk)


def _recorded(run: NewRun, inserted: _Inserted, now: datetime) -> ScheduledRun:
    key = run.execution.row.key if run.execution else ""
    execution = inserted.ids.get(key)
    reason = "" if execution else run.reason or inserted.why_not(key)
    return ScheduledRun(
        schedule=run.schedule, due_at=run.due_at, decided_at=now, execution_id=execution, reason=reason,
        outcome=RunOutcome.ENQUEUED if execution else RunOutcome.SKIPPED, requested_by=run.requested_by,
    )  # fmt: skip


def _reason(error: SluiceError) -> str:
    return clean(str(error))[:LONGEST_REASON] or type(error).__name__


_OPEN = """
    SELECT r.id FROM queuemgr_scheduledrun r
     WHERE r.outcome = 'enqueued' AND r.ended_at IS NULL AND {which}
     ORDER BY r.id{pass_over}
"""
"""Without those that another process is noting just now: two that note many would wait for each other."""

_HAS_ENDED = (
    "EXISTS (SELECT 1 FROM queuemgr_execution e WHERE e.id = r.execution_id AND e.finished_at IS NOT NULL)"
)
_IS_GONE = "NOT EXISTS (SELECT 1 FROM queuemgr_execution e WHERE e.id = r.execution_id)"
_NOTE_ENDS = """
    UPDATE queuemgr_scheduledrun SET ended_at = e.finished_at, ended_as = e.state
      FROM queuemgr_execution e
     WHERE e.id = queuemgr_scheduledrun.execution_id AND e.finished_at IS NOT NULL
       AND queuemgr_scheduledrun.id IN ({open})
"""
_NOTE_GONE = "UPDATE queuemgr_scheduledrun SET ended_at = %s WHERE id IN ({open})"


def note_retried(executions: Sequence[Execution]) -> None:
    """A run whose execution a person has retried has not ended after all: the next one meets it again."""
    ids = [execution.pk for execution in executions if execution.key.startswith(KEYS)]
    ended = ScheduledRun.objects.filter(execution__in=ids, ended_as__in=UNSUCCESSFUL)
    if ids:
        ended.update(ended_at=None, ended_as="")


def note_ends(now: datetime | None = None) -> None:
    """Note in the runs how their executions ended. One whose execution was deleted has ended, too."""
    sql.run(_NOTE_ENDS.format(open=sql.typed(_OPEN, which=_HAS_ENDED)))
    sql.run(_NOTE_GONE.format(open=sql.typed(_OPEN, which=_IS_GONE)), [now or database_now()])
