"""The Celery task base of every step: begin only while holding the lease, then keep the slot busy.

A message means "a slot on this queue has work: lease X". The task that receives it runs X, then
whatever its slot is handed when that ends, until nothing is handed over or its time slice is up.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from celery import Task, shared_task
from django.db import connection, connections
from django.db.models import F

from queuemgr.base import process_state, sql
from queuemgr.base.config import queue_settings
from queuemgr.base.errors import Aborted, LeaseLost, StepFailed
from queuemgr.base.redaction import describe_error
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.outcomes import Done, Failed, Interrupted, Result
from queuemgr.lifecycle import redispatch_timer, tracing
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.leases import Grant
from queuemgr.lifecycle.publish import UNKNOWN_STEP, task_of
from queuemgr.models import Lease
from queuemgr.worker import log_format
from queuemgr.worker.current_worker import get_current_worker
from queuemgr.worker.group_commit import GroupCommitter
from queuemgr.worker.heartbeat import Heartbeat

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Work:
    """What a step is given: its grant, and the signal that may abort it."""

    grant: Grant
    signal: AbortSignal

    @property
    def key(self) -> str:
        return self.grant.key

    @property
    def inputs(self) -> dict[str, Any]:
        """Payload and what earlier steps learnt."""
        return {**self.grant.payload, **self.grant.context}

    def spend(self, requests: int = 1) -> None:
        """Say that so many requests of what was reserved are about to be sent; asked for before each.

        What was said is charged even if the worker dies, and the rest given back. Raises `LeaseLost`
        when the lease is gone, and `StepFailed` when more would be sent than was reserved.
        """
        mine = Lease.objects.filter(pk=self.grant.lease_id)
        if mine.filter(spent__lte=F("cost") - requests).update(spent=F("spent") + requests):
            return
        if not mine.exists():
            raise LeaseLost(f"lease {self.grant.lease_id} ended while its step ran")
        raise StepFailed("over_reserved", f"it wants {requests} more requests than it had reserved")

    def raise_if_lost(self) -> None:
        """Raise `Aborted`, or `LeaseLost` when the lease is gone: to be asked before a file is
        put in its final place."""
        self.signal.raise_if_aborted()
        if not Lease.objects.filter(pk=self.grant.lease_id).exists():
            raise LeaseLost(f"lease {self.grant.lease_id} ended while its step ran")


class LeasedTask(Task):  # type: ignore[type-arg]  # not generic at run time
    """Base of step tasks: `@shared_task(base=LeasedTask, name="papers.fetch")`.

    The function takes a `Work` and returns an outcome (`Done(...)`, `Skipped(...)`, `Snoozed(...)`) or
    None for done; raising `StepFailed` names the kind of failure, any other exception is "unexpected".
    Celery's own retries, results and time limits stay out of it.
    """

    abstract = True
    typing = False
    send_events = False
    acks_late = True
    reject_on_worker_lost = False
    ignore_result = True
    max_retries = 0

    def __call__(self, lease_id: str) -> None:
        slot = _process()
        ends = time.monotonic() + queue_settings().slot_handover_seconds
        grant, carried = slot.committer.begin(UUID(lease_id)), self.request.get(tracing.HEADER)
        while grant is not None:
            started, span = time.monotonic(), tracing.step_began(grant, task_of(grant), carried)
            with tracing.inside(span), log_format.about(grant, slot.worker):
                result = self._run_step(grant, slot.heartbeat)
            now = time.monotonic()
            after = slot.committer.end(grant, result, now - started, wants_next=now < ends)
            tracing.step_ended(span, after.outcome, result)
            grant, carried = after.grant, None  # what is handed over comes with no message

    def _run_step(self, grant: Grant, heartbeat: Heartbeat) -> Result:
        with heartbeat.keeping(grant.lease_id) as signal:
            try:
                return self.app.tasks[task_of(grant)].run(Work(grant, signal)) or Done()
            except Exception as error:
                return as_result(error, signal)
            finally:
                for used in connections.all(initialized_only=True):
                    used.close()


def as_result(error: Exception, signal: AbortSignal) -> Result:
    """What an exception out of a step means."""
    if isinstance(error, StepFailed):
        return Failed(error.kind, error.message, error.retry_after, limit=error.limit)
    if isinstance(error, Aborted | LeaseLost) or signal.aborted:
        return Interrupted(signal.reason or str(error))
    if sql.is_away(error):
        return Failed("storage", f"the database did not answer: {describe_error(error)}")
    logger.error("a step failed unexpectedly", exc_info=error)
    return Failed("unexpected", describe_error(error))


@dataclass(frozen=True)
class _Process:
    """The threads that the slots of one process share."""

    worker: str
    heartbeat: Heartbeat
    committer: GroupCommitter


_shared: _Process | None = None


def _process() -> _Process:
    if _shared is None:
        raise RuntimeError("this process has not started its heartbeat and committer threads")
    return _shared


def _reset() -> None:
    global _shared
    _shared = None


process_state.register(_reset, in_forked_child=True)


def start_process(*, is_parent: bool) -> None:
    """Start the threads the slots of this process share; called once per worker process."""
    global _shared
    worker = get_current_worker()
    redispatch_timer.start(_redispatch)
    heartbeat = Heartbeat(worker, is_parent=is_parent)
    _shared = _Process(worker.name, heartbeat, GroupCommitter(worker))


def _redispatch() -> None:
    dispatch()
    connection.close()


@shared_task(base=LeasedTask, name=UNKNOWN_STEP)
def unknown_step(work: Work) -> Result:
    """Work whose flow or step this deployment does not have: failed where a person sees it."""
    grant = work.grant
    message = f"no step {grant.phase}/{grant.step} in flow {grant.flow!r} on this worker"
    return Failed("unexpected", message)
