"""The Celery task base of every step: it runs a step only while holding its lease.

A message means "lease X waits for a slot on this queue". The task that receives it runs the step of
lease X, then the step of each lease its slot is assigned when one ends, until none is assigned or
`SLUICE_SLOT_HANDOVER_SECONDS` have passed.
"""

from __future__ import annotations

import logging
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from celery import Task, shared_task

from queuemgr.base import process_state, sql
from queuemgr.base.config import queue_settings
from queuemgr.base.db_connection import close_connections, database
from queuemgr.base.errors import Aborted, LeaseLost, StepFailed
from queuemgr.base.redaction import describe_error
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.outcomes import Done, Failed, Interrupted, Result
from queuemgr.lifecycle import attempts, leases, log_context, redispatch_timer, tracing
from queuemgr.lifecycle.attempts import AttemptsSoFar
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.leases import Grant
from queuemgr.lifecycle.publish import UNKNOWN_STEP, task_of
from queuemgr.models import Lease
from queuemgr.worker.current_worker import get_current_worker
from queuemgr.worker.group_commit import GroupCommitter
from queuemgr.worker.heartbeat import Heartbeat

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Work:
    """What a step is called with: the grant of its lease, and the signal that aborts it."""

    grant: Grant
    signal: AbortSignal

    @property
    def key(self) -> str:
        return self.grant.key

    @staticmethod
    def database() -> AbstractContextManager[None]:
        """`with work.database():` around what a step reads from the database before it continues: the
        connection is closed at the end of the block, and none is held while the step works or waits."""
        return database()

    @property
    def inputs(self) -> dict[str, Any]:
        """The payload, and over it the context that earlier steps returned."""
        return {**self.grant.payload, **self.grant.context}

    def attempts_so_far(self) -> AttemptsSoFar:
        """The earlier attempts of this step that count against its retry policy."""
        with database():
            return attempts.so_far(self.grant)

    def is_last_attempt(self, kind: str, failures: int) -> bool:
        """Whether a failure of this kind, after `failures` earlier ones, will not be retried."""
        with database():
            return attempts.is_last(self.grant, kind, failures)

    def record_requests(self, requests: int = 1) -> None:
        """Record, before they are sent, that `requests` of the reserved requests are about to be sent.

        They are charged to the budgets even if the worker dies; the rest of the reservation is
        refunded. Raises `LeaseLost` when the lease is gone, and `StepFailed` of kind `over_reserved`
        when more would be sent than were reserved.
        """
        with database():
            if leases.record_requests(self.grant.lease_id, requests):
                return
            self._raise_if_gone()
        message = f"sending {requests} more requests would exceed what the step reserved (its cost)"
        raise StepFailed("over_reserved", message)

    def raise_if_lost(self) -> None:
        """Raise `Aborted` when the step is aborted, `LeaseLost` when its lease is gone.

        Call it before a side effect that cannot be part of the result's transaction, such as moving
        a file to its final path.
        """
        self.signal.raise_if_aborted()
        with database():
            self._raise_if_gone()

    def _raise_if_gone(self) -> None:
        if not Lease.objects.filter(pk=self.grant.lease_id).exists():
            raise LeaseLost(f"lease {self.grant.lease_id} ended while its step ran")


class LeasedTask(Task):  # type: ignore[type-arg]  # not generic at run time
    """Base of step tasks: `@shared_task(base=LeasedTask, name="press.print")`.

    The function takes a `Work` and returns an outcome (`Done(...)`, `Skipped(...)`, `Snoozed(...)`), or
    None for `Done()`. It raises `StepFailed` to name the kind of failure; any other exception is
    recorded as "unexpected". Celery's own retries, results and time limits are not used.
    """

    abstract = True
    typing = False
    send_events = False
    acks_late = True
    reject_on_worker_lost = False
    ignore_result = True
    max_retries = 0

    def __call__(self, lease_id: str) -> None:
        if _threads is None:
            raise RuntimeError("this process has not started its heartbeat and committer threads")
        heartbeat, committer = _threads
        handover_ends = time.monotonic() + queue_settings().slot_handover_seconds
        grant, parent = committer.begin(UUID(lease_id)), self.request.get(tracing.HEADER)
        while grant is not None:
            started, here = time.monotonic(), get_current_worker().name
            span = tracing.step_began(grant, task_of(grant), parent, worker=here)
            with tracing.inside(span), log_context.about(grant, here):
                result = self._run_step(grant, heartbeat)
            now = time.monotonic()
            runtime = max(0.0, now - max(started, grant.not_before))
            end = committer.finish(grant, result, runtime, wants_next=now < handover_ends)
            tracing.step_ended(span, end.outcome, result)
            grant = end.next_grant
            parent = None  # an assigned lease came without a message

    def _run_step(self, grant: Grant, heartbeat: Heartbeat) -> Result:
        with heartbeat.renewing(grant) as signal:
            try:
                signal.sleep(grant.not_before - time.monotonic())  # until its rates allow it to start
                return self.app.tasks[task_of(grant)].run(Work(grant, signal)) or Done()
            except Exception as error:
                return as_result(error, signal)
            finally:
                close_connections()


def as_result(error: Exception, signal: AbortSignal) -> Result:
    """The outcome that an exception raised by a step stands for."""
    if isinstance(error, StepFailed):
        return Failed(error.kind, error.message, error.retry_after, limit=error.limit)
    if isinstance(error, Aborted | LeaseLost) or signal.aborted:
        return Interrupted(signal.reason or str(error))
    if sql.is_away(error):
        return Failed("storage", f"the database did not answer: {describe_error(error)}")
    logger.error("a step failed unexpectedly", exc_info=error)
    return Failed("unexpected", describe_error(error))


_threads: tuple[Heartbeat, GroupCommitter] | None = None
"""The threads that the slots of this process share."""


def _reset() -> None:
    global _threads
    _threads = None


process_state.register(_reset, in_forked_child=True)


def start_process(*, is_parent: bool) -> None:
    """Start the threads the slots of this process share; called once per worker process."""
    global _threads
    worker = get_current_worker()
    redispatch_timer.start(dispatch)
    _threads = Heartbeat(worker, is_parent=is_parent), GroupCommitter(worker)


@shared_task(base=LeasedTask, name=UNKNOWN_STEP)
def unknown_step(work: Work) -> Result:
    """Fail work whose flow or step this deployment does not have, so that a person sees it."""
    grant = work.grant
    message = f"this worker has no step {grant.phase}/{grant.step} in flow {grant.flow!r}"
    return Failed("unexpected", message)
