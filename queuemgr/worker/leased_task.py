"""The Celery task base of every step: it runs a step only while holding its lease.

A message means "lease X waits for a slot on this queue". The task that receives it runs the step of
lease X, then the step of each lease its slot is assigned when one ends, until none is assigned or
`SLUICE_SLOT_HANDOVER_SECONDS` have passed.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from celery import Celery, Task, shared_task

from queuemgr.base import overdue_calls, process_state
from queuemgr.base.config import queue_settings
from queuemgr.base.db_connection import database
from queuemgr.base.overdue_calls import Call
from queuemgr.base.redaction import describe_error
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.outcomes import Failed, Result
from queuemgr.lifecycle import canvas_calls, log_context, tracing, unknown_steps
from queuemgr.lifecycle.continuation import continuation_of, rule_that_hangs
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.finish import Finish
from queuemgr.lifecycle.leases import Grant
from queuemgr.lifecycle.publish import NO_TIME_LIMIT, UNKNOWN_STEP, task_of
from queuemgr.worker import attempt_log, dropped_messages, pool_children, process_wide
from queuemgr.worker.application_code import outcome_of, termination_deferred
from queuemgr.worker.background_thread import end_damaged_process
from queuemgr.worker.current_work import doing
from queuemgr.worker.current_worker import get_current_worker
from queuemgr.worker.group_commit import GroupCommitter, LeaseEnd
from queuemgr.worker.observed_limits import with_meter
from queuemgr.worker.running_steps import RunningStep, RunningSteps
from queuemgr.worker.shutting_down import is_shutting_down
from queuemgr.worker.step_usage import StepUsage
from queuemgr.worker.time_limits import limited
from queuemgr.worker.work import Work

logger = logging.getLogger(__name__)


def lease_named(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> UUID | None:
    """The lease of a message; None for one that names none, which is dropped: the queue has not sent it."""
    try:
        (named,) = () if kwargs else args
        return UUID(named)
    except (ValueError, TypeError, AttributeError):
        dropped_messages.drop("it names no lease")
        return None


class LeasedTask(Task):  # type: ignore[type-arg]  # not generic at run time
    """Base of step tasks: `@shared_task(base=LeasedTask, name="press.print")`.

    The function takes a `Work` and returns an outcome (`Done(...)`, `Skipped(...)`, `Snoozed(...)`), or
    None for `Done()`. It raises `StepFailed` to name the kind of failure; any other exception is
    recorded as "unexpected". Celery's own retries, results and time limits are not used.
    """

    abstract = True
    only_of_the_queue = True
    """Whether nobody but the queue sends its messages, which are due at once."""
    typing = False
    send_events = False
    acks_late = True
    reject_on_worker_lost = False
    ignore_result = True
    max_retries = 0
    time_limit = soft_time_limit = NO_TIME_LIMIT

    @classmethod
    def on_bound(cls, app: Celery) -> None:
        """Called when the task is bound to an application. A rate limit that its settings state for all tasks
        would hold messages of leases back in the worker, whose slots they are."""
        cls.rate_limit = None

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        if _threads is None:
            raise RuntimeError("this process has not started its threads")
        if (lease_id := lease_named(args, kwargs)) is None:
            return
        handover_ends = time.monotonic() + queue_settings().slot_handover_seconds
        grant, parent = _threads.committer.begin(lease_id), self.request.get(tracing.HEADER)
        while grant is not None:
            grant = self._run_step(grant, parent, _threads, handover_ends)
            parent = None  # an assigned lease came without a message

    def _run_step(self, grant: Grant, parent: str | None, threads: Threads, until: float) -> Grant | None:
        """Run a step and end its lease; returns the lease its slot is assigned next, if any.

        Whatever escapes from what runs meanwhile (a tracer, a rule, an attribute of an exception) ends the
        lease, too: a lease without an outcome would be waited for until it expires, and its step run again.
        """
        before = process_wide.before_step()
        ended: list[LeaseEnd] = []
        try:
            self._run_and_end(grant, parent, threads, until, ended)
        except BaseException as error:
            if is_shutting_down():
                raise
            _end_escaped(grant, error, threads, ended)
        finally:
            process_wide.put_back(before)  # a store and the rules of a flow may change it, too
        if is_shutting_down():
            raise SystemExit  # the outcome is stored; now end, as the parent of this pool asked
        if damage := process_wide.damage():
            threads.leave_damaged(damage)
            return None
        return ended[0].next_grant if ended else None

    def _run_and_end(
        self, grant: Grant, parent: str | None, threads: Threads, until: float, ended: list[LeaseEnd]
    ) -> None:
        """Adds to `ended` how the lease ended, as soon as it has."""
        here = get_current_worker().name
        span = tracing.step_began(grant, task_of(grant), parent, worker=here)
        with (
            tracing.inside(span),
            log_context.about(grant, here),
            threads.steps.running(grant) as step,
            pool_children.shown(grant.lease_id, step.limits.hard),
        ):
            usage = StepUsage()
            result = with_meter(outcome_of(partial(self._call, step, usage), step.signal), usage.lacking)
            with termination_deferred():
                with database(), threads.rules_timed(step, result):  # a rule may have read something
                    continuation = continuation_of(grant, result)
                ending = Finish(grant.lease_id, result, continuation, attempt_log.text_for(result))
                if not threads.steps.claim_end(step):
                    return  # it was ended for its time limit, and its process is about to end
                pool_children.show_ending(grant.lease_id)
                wants_next = time.monotonic() < until and not is_shutting_down()
                if process_wide.damage():
                    threads.steps.found_damage(step)
                    wants_next = False
                end = threads.committer.finish(grant, limited(ending, step), step.ran, wants_next=wants_next)
                ended.append(end)
        if canvas_calls.MARK in grant.payload:
            canvas_calls.step_ended(grant.flow, grant.key)
        tracing.step_ended(span, end.outcome, result)

    def _call(self, step: RunningStep, usage: StepUsage) -> object:
        """Call the step, once its rates allow it to start; returns whatever it returns."""
        step.signal.sleep(step.grant.not_before - time.monotonic())
        work = Work(step.grant, step.signal, usage=usage)
        with doing(work):
            # Celery's stubs know only its own class.
            task: LeasedTask = self.app.tasks[task_of(step.grant)]  # type: ignore[assignment]  # see above
            return task.perform(work)

    @property
    def is_asynchronous(self) -> bool:
        """Whether its function is an `async def`."""
        return inspect.iscoroutinefunction(getattr(self, "_orig_run", self.run))

    def perform(self, work: Work) -> object:
        """Do the step; returns whatever its function returns. A coroutine has an event loop of its own."""
        return run_coroutine(self.run(work), work.signal)

    async def aperform(self, work: Work) -> object:
        """Do the step, in an async slot; returns whatever its function returns."""
        return await self.run(work)


def run_coroutine(returned: Any, signal: AbortSignal) -> Any:
    """What a coroutine returns, run in an event loop of its own, where the signal cancels it; anything else
    as it is."""
    if not inspect.iscoroutine(returned):
        return returned

    async def until_aborted() -> Any:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        if task is None:
            raise AssertionError("a coroutine runs in a task")
        with signal.hooked(partial(loop.call_soon_threadsafe, task.cancel)):
            return await returned

    return asyncio.run(until_aborted())


def _end_escaped(grant: Grant, error: BaseException, threads: Threads, ended: list[LeaseEnd]) -> None:
    """End its lease as failed unless it has ended, which adds to `ended`; if even that cannot be done, end
    this process, and its leases with it."""
    try:
        process_wide.raise_limits()
        with log_context.about(grant, get_current_worker().name):
            logger.error("%s: this escaped while its step ran or ended", grant, exc_info=error)
        if not ended:
            failed = Finish(grant.lease_id, Failed("unexpected", describe_error(error)))
            ended.append(threads.committer.finish(grant, failed, 0.0, wants_next=False))
        pool_children.show_idle()
    except BaseException as second:
        if is_shutting_down():
            raise
        end_damaged_process(f"it could not end a lease ({describe_error(second)})")


class Threads(NamedTuple):
    """What the slots of a process share: the steps that run, the thread that ends their leases, and what is
    done when a step has damaged the process, or a rule of its flow does not return."""

    steps: RunningSteps
    committer: GroupCommitter
    leave: Callable[[], object]
    leave_damaged: Callable[[str], object] = end_damaged_process

    def rules_timed(self, step: RunningStep, result: Result) -> AbstractContextManager[Call]:
        """Around the rules that say where it continues: one that hangs holds neither slot nor lease."""
        seconds = queue_settings().callback_seconds
        report = partial(self._rules_hang, step, result, seconds)
        return overdue_calls.timed(("rules", str(step.grant)), seconds, report)

    def _rules_hang(self, step: RunningStep, result: Result, seconds: float, call: Call) -> None:
        """End its lease with the result, and then the process, whose slot is stuck."""
        if not self.steps.claim_end(step):
            return
        step.stuck = True
        broke = rule_that_hangs(step.grant, result, seconds)
        with log_context.about(step.grant, get_current_worker().name):
            logger.error("%s: this process ends; it is here:", broke.message, extra={"lines": call.where()})
        log = attempt_log.text_for(result, step.lines)
        ending = limited(Finish(step.grant.lease_id, result, broke, log), step)
        self.committer.finish(step.grant, ending, step.ran, wants_next=False)
        self.leave()


_threads: Threads | None = None


def _reset() -> None:
    global _threads
    _threads = None


process_state.register(_reset, in_forked_child=True)


def use(threads: Threads) -> None:
    """Have the steps of this process run with these."""
    global _threads
    _threads = threads


class LeaseOfAnotherRelease(LeasedTask):
    """Puts back leases of steps that this process does not know; the others it runs."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        if (lease_id := lease_named(args, kwargs)) is None:
            return
        with database():
            if unknown_steps.put_back(lease_id):
                dispatch()
                return
        super().__call__(str(lease_id))


@shared_task(base=LeaseOfAnotherRelease, name=UNKNOWN_STEP)
def unknown_step(work: Work) -> Result:
    """Fail work whose step is gone since its lease began, as after a change of the flows in this process."""
    grant = work.grant
    message = f"this worker has no step {grant.phase}/{grant.step} in flow {grant.flow!r}"
    return Failed("unexpected", message)
