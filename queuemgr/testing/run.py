"""Runs what is due in the process and the thread of a test, one execution after another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from celery import current_app

from queuemgr.base import sql
from queuemgr.base.db_connection import database
from queuemgr.base.scheduler_lock import database_now, has_sessions, hold_scheduler_lock
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.flow import all_queues
from queuemgr.flows.outcomes import Failed, Result
from queuemgr.lifecycle import dispatch, enqueue_at_commit, finish
from queuemgr.lifecycle.continuation import continuation_of
from queuemgr.lifecycle.finish import Finish
from queuemgr.lifecycle.leases import Grant
from queuemgr.lifecycle.publish import task_of
from queuemgr.lifecycle.scheduler import FreeSlots
from queuemgr.models import Worker
from queuemgr.scheduling import limit_rows
from queuemgr.scheduling.capacity import group_of
from queuemgr.tasks.called_work import remembering
from queuemgr.tasks.handle import TaskFailed
from queuemgr.worker import process_identity, worker_row
from queuemgr.worker.application_code import outcome_of
from queuemgr.worker.current_work import doing
from queuemgr.worker.work import Work

NAME = "test"
"""Of the worker that attempts name."""

MOST = 10_000
"""Steps that one call runs at most: work that enqueues itself would run for ever."""


@dataclass(frozen=True)
class Ran:
    """One step that ran: of which flow and execution, its name, and how it ended (`done`, `failed` …)."""

    flow: str
    key: str
    step: str
    outcome: str


def run_due(*, raising: bool = True, at_most: int = MOST) -> list[Ran]:
    """Run everything that may start now, and what that enqueues, under its limits; returns what ran.

    With `raising`, the error of a step that fails for good is raised once it is recorded: the exception of
    its function, else `TaskFailed`. What is to be retried waits for its time; see `clock`.
    Raises `RuntimeError` when more than `at_most` steps ran.
    """
    enqueue_at_commit.flush()
    ran: list[Ran] = []
    with database(), _worker() as worker:
        while grant := _next(worker):
            ran.append(_run(grant, raising=raising))
            enqueue_at_commit.flush()
            if len(ran) > at_most:
                raise RuntimeError(f"{at_most} steps ran, and more is due: does work enqueue itself?")
    return ran


@contextmanager
def _worker() -> Iterator[Worker]:
    """A worker with one slot and every queue, while the block runs."""
    limit_rows.sync(as_newest=True)
    with hold_scheduler_lock() as lock:
        row = worker_row.register(lock, NAME, process_identity.this_process(), all_queues(), slots=1)
    try:
        yield row
    finally:
        worker_row.remove(row.pk)
        if has_sessions():  # what decisions set is for short transactions, not for that of a test
            sql.value("SELECT set_config('idle_in_transaction_session_timeout', '0', true)")
            sql.value("SELECT set_config('lock_timeout', '0', true)")


def _next(worker: Worker) -> Grant | None:
    worker_row.refresh(worker.pk, database_now())
    granted = dispatch.grant_leases(FreeSlots(worker.pk, group_of(worker.queues, has_async=False), 1))
    return granted.assigned[0] if granted and granted.assigned else None


def _run(grant: Grant, *, raising: bool) -> Ran:
    work, raised = Work(grant, AbortSignal()), list[BaseException]()
    result = outcome_of(partial(_call, work, raised), work.signal)
    ending = Finish(grant.lease_id, result, continuation_of(grant, result))
    outcome = finish.finish_leases([ending], database_now()).get(grant.lease_id, "lost")
    if raising and outcome == "failed":
        raise _error_of(grant, result, raised)
    return Ran(grant.flow, grant.key, grant.step, outcome)


def _call(work: Work, raised: list[BaseException]) -> object:
    task: Any = current_app.tasks[task_of(work.grant)]
    try:
        with doing(work), remembering(task, raised):
            return task.perform(work)
    except BaseException as error:
        raised.append(error)
        raise


def _error_of(grant: Grant, result: Result, raised: list[BaseException]) -> BaseException:
    if raised:
        return raised[0]
    failed = result if isinstance(result, Failed) else Failed("unexpected", "see its attempt")
    return TaskFailed(f"{grant.flow}/{grant.key}", failed.kind, failed.message, failed.traceback)
