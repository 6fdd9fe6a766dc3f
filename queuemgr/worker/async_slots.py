"""The async slots of a worker: each runs one asynchronous step after another on the worker's event loop.

As a slot that is a thread: it begins the lease that a message brought, runs its step, ends it, and continues
with the lease it is assigned then. Whatever could block the loop is left to other threads: the transactions
to a committer of its own, the rules of flows, stores and the ORM to a few more.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID

from asgiref.sync import ThreadSensitiveContext
from celery import current_app

from queuemgr.base import process_state
from queuemgr.base.application_call import end_if_forked
from queuemgr.base.config import queue_settings
from queuemgr.base.db_connection import database
from queuemgr.base.redaction import describe_error
from queuemgr.flows.flow import is_async_step
from queuemgr.flows.outcome_checks import checked
from queuemgr.flows.outcomes import Failed, Interrupted, Result
from queuemgr.lifecycle import canvas_calls, log_context, result_store, tracing
from queuemgr.lifecycle.continuation import Continuation, asks_rules, continuation_of
from queuemgr.lifecycle.finish import Finish
from queuemgr.lifecycle.leases import Grant
from queuemgr.lifecycle.publish import task_of
from queuemgr.worker import attempt_log, process_wide
from queuemgr.worker.application_code import as_result
from queuemgr.worker.background_thread import end_damaged_process
from queuemgr.worker.current_work import doing
from queuemgr.worker.event_loop import EventLoop, StepsThread, end_left, start_step, wait_until
from queuemgr.worker.group_commit import GroupCommitter, LeaseEnd
from queuemgr.worker.observed_limits import with_meter
from queuemgr.worker.running_steps import SHUTDOWN, RunningStep
from queuemgr.worker.step_usage import StepUsage
from queuemgr.worker.time_limits import ABORT_SECONDS, limited
from queuemgr.worker.work import Work

if TYPE_CHECKING:
    from queuemgr.worker.leased_task import LeasedTask, Threads

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Message(NamedTuple):
    """A message for an async slot: the lease it brings, its trace, and what is called when the slot is free
    again."""

    lease_id: UUID
    traceparent: str | None
    acknowledge: Callable[[], object]


class AsyncSlots:
    """So many slots, on one event loop. `threads` has what they share with the other slots of the process."""

    def __init__(self, slots: int, worker: str, threads: Threads, committer: GroupCommitter) -> None:
        self._slots, self._worker, self._threads, self._committer = slots, worker, threads, committer
        self._before = process_wide.before_step()
        self._waiting: deque[Message] = deque()
        self._busy: set[asyncio.Task[None]] = set()
        self._loop = EventLoop()

    def accept(self, message: Message) -> None:
        """Have a slot run its lease; from any thread."""
        self._loop.loop.call_soon_threadsafe(self._accept, message)

    def _accept(self, message: Message) -> None:
        """After it connected again, the broker may send more than there are slots free."""
        if len(self._busy) >= self._slots:
            self._waiting.append(message)
            return
        task = self._loop.loop.create_task(self._slot(message))
        self._busy.add(task)
        task.add_done_callback(self._free)

    def _free(self, slot: asyncio.Task[None]) -> None:
        self._busy.discard(slot)
        if not slot.cancelled() and (error := slot.exception()):
            end_damaged_process(f"an async slot failed ({describe_error(error)})")
        if self._waiting:
            self._accept(self._waiting.popleft())

    def wait_until_idle(self) -> None:
        """Wait for the steps that run, and once they have had their grace, for their cancellation."""
        if wait_until(lambda: not self._busy, queue_settings().shutdown_grace):
            return
        self.abort()

    def abort(self) -> None:
        """Cancel those that run, and wait a little for them."""
        for step in self._threads.steps.all():
            if step.is_async:
                self._threads.steps.abort(step, SHUTDOWN)
        if not wait_until(lambda: not self._busy, ABORT_SECONDS):
            logger.error("%d asynchronous steps still run though they were cancelled", len(self._busy))

    async def _slot(self, message: Message) -> None:
        try:
            until = time.monotonic() + queue_settings().slot_handover_seconds
            grant, parent = await self._committer.abegin(message.lease_id), message.traceparent
            while grant is not None:
                grant, parent = await self._run_step(grant, parent, until), None
        finally:
            message.acknowledge()

    async def _run_step(self, grant: Grant, parent: str | None, until: float) -> Grant | None:
        """Run a step and end its lease, whatever escapes meanwhile; returns the lease its slot is assigned
        next, if any."""
        ended: list[LeaseEnd] = []
        try:
            await self._run_and_end(grant, parent, until, ended)
        except BaseException as error:
            await self._end_escaped(grant, error, ended)
        finally:
            process_wide.put_back(self._before)
        if damage := process_wide.damage():
            self._threads.leave_damaged(damage)
            return None
        return ended[0].next_grant if ended else None

    async def _run_and_end(
        self, grant: Grant, parent: str | None, until: float, ended: list[LeaseEnd]
    ) -> None:
        """Adds to `ended` how the lease ended, as soon as it has."""
        span = tracing.step_began(grant, task_of(grant), parent, worker=self._worker)
        with (
            tracing.inside(span),
            log_context.about(grant, self._worker),
            self._threads.steps.running(grant, is_async=True) as step,
        ):
            usage = StepUsage()
            result = with_meter(await self._result_of(step, usage), usage.lacking)
            continuation = await self._continuation(step, result)
            if not self._threads.steps.claim_end(step):
                return  # it was ended for its time limit
            ending = Finish(grant.lease_id, result, continuation, attempt_log.text_for(result))
            end = await self._finish(step, ending, wants_next=time.monotonic() < until)
            ended.append(end)
        if canvas_calls.MARK in grant.payload:
            await self._in_thread(canvas_calls.step_ended, grant.flow, grant.key)
        tracing.step_ended(span, end.outcome, result)

    async def _result_of(self, step: RunningStep, usage: StepUsage) -> Result:
        """Run the step in a task and a context of its own, which the abort signal cancels."""
        loop = self._loop.loop
        thread = self._loop.database_thread()
        task, started = start_step(loop, _perform(step, usage, thread), copy_context())
        try:
            with step.signal.hooked(partial(loop.call_soon_threadsafe, task.cancel)):
                return await task
        except BaseException as error:  # it was cancelled before it began
            return as_result(error, step.signal)
        finally:
            await end_left(started, step.grant)
            thread.leave()

    async def _continuation(self, step: RunningStep, result: Result) -> Continuation | None:
        if not asks_rules(step.grant, result):
            return continuation_of(step.grant, result)

        def ask() -> Continuation | None:
            with database(), self._threads.rules_timed(step, result):
                return continuation_of(step.grant, result)

        return await self._in_thread(ask)

    async def _finish(self, step: RunningStep, ending: Finish, *, wants_next: bool) -> LeaseEnd:
        grant, ran = step.grant, step.ran
        if not result_store.has_store(ending.result):
            return await self._committer.afinish(grant, ending, ran, wants_next=wants_next)
        finish = partial(self._committer.finish, wants_next=wants_next)
        return await self._in_thread(finish, grant, limited(ending, step), ran)

    async def _end_escaped(self, grant: Grant, error: BaseException, ended: list[LeaseEnd]) -> None:
        """End its lease as failed unless it has ended; if even that cannot be done, end this process."""
        try:
            with log_context.about(grant, self._worker):
                logger.error("%s: this escaped while its step ran or ended", grant, exc_info=error)
            if not ended:
                failed = Finish(grant.lease_id, Failed("unexpected", describe_error(error)))
                ended.append(await self._committer.afinish(grant, failed, 0.0, wants_next=False))
        except BaseException as second:
            end_damaged_process(f"it could not end a lease ({describe_error(second)})")

    async def _in_thread(self, function: Callable[..., T], *args: Any) -> T:
        run = partial(copy_context().run, function, *args)
        return await self._loop.loop.run_in_executor(self._loop.for_endings, run)


async def _perform(step: RunningStep, usage: StepUsage, thread: StepsThread) -> Result:
    """Do the step, once its rates allow it to start. Nothing is raised: `SystemExit` would end the loop."""
    own = os.getpid()
    try:
        if (wait := step.grant.not_before - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        task: LeasedTask = current_app.tasks[task_of(step.grant)]  # type: ignore[assignment]  # stubs
        if isinstance(why_not := _why_not_here(step.grant, task), Failed | Interrupted):
            return why_not
        work = Work(step.grant, step.signal, usage=usage)
        async with ThreadSensitiveContext(executor=thread):
            with doing(work):
                returned = await task.aperform(work)
        end_if_forked(own, None)
        return checked(returned)
    except BaseException as error:
        end_if_forked(own, error)
        return as_result(error, step.signal)


def _why_not_here(grant: Grant, task: LeasedTask) -> Failed | Interrupted | None:
    """A step that has become a plain function since it was enqueued waits again, for a slot."""
    if task.is_asynchronous:
        return None
    if not is_async_step(grant.flow, grant.phase, grant.step):
        return Interrupted("in this release its step is not asynchronous")
    return Failed("unexpected", f"its step is_async, but the task {task.name} is no async def")


_slots: AsyncSlots | None = None


def _reset() -> None:
    global _slots
    _slots = None


process_state.register(_reset, in_forked_child=True)


def use(slots: AsyncSlots) -> None:
    """Have messages for async slots go to these; called once in a worker process that has some."""
    global _slots
    _slots = slots


def get_async_slots() -> AsyncSlots | None:
    """Those of this process, if it has some."""
    return _slots
