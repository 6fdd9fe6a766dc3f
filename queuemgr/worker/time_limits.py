"""One thread per worker process that holds steps to their time limits.

After the soft limit a step's abort signal is set. After the hard limit its attempt ends as `timeout`,
whatever the step does, and its lease with it: it can no longer store anything. A thread cannot be stopped
from outside, so its process takes no more work, lets the other steps finish, and ends with exit code 75, for
its supervisor to start anew. In a prefork pool the parent kills the child instead (`pool_children.py`).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from queuemgr.base import application_call
from queuemgr.base.config import queue_settings
from queuemgr.base.misconduct import refuse_not_run
from queuemgr.flows.outcomes import Done, Failed, Snoozed
from queuemgr.lifecycle import log_context
from queuemgr.lifecycle.finish import Finish
from queuemgr.worker import background_thread, pool_children, process_wide
from queuemgr.worker.background_thread import STEP_STUCK, THREAD_DIED
from queuemgr.worker.current_worker import CurrentWorker
from queuemgr.worker.running_steps import SHUTDOWN, RunningStep, RunningSteps

logger = logging.getLogger(__name__)

LONGEST_WAIT = 60.0
"""Seconds between looks when no step has a limit; a step with one wakes the thread."""


class StuckSteps(NamedTuple):
    """What a process does about a step that does not stop: `end` ends its lease, `leave` has the fleet give
    this worker no more work."""

    end: Callable[[RunningStep, Failed], object]
    leave: Callable[[], object]


class TimeLimitWatch:
    """Aborts steps that exceed their soft limit, and ends those that exceed the hard one, unless the parent
    of the pool does that."""

    def __init__(self, worker: CurrentWorker, steps: RunningSteps, stuck: StuckSteps | None = None) -> None:
        self._worker, self._steps, self._stuck = worker, steps, stuck
        background_thread.repeat("sluice-time-limits", self._look, uses_database=False)

    def _look(self) -> float:
        with self._steps.changed:
            self._steps.changed.wait(max(0.0, min(self._next_in(), LONGEST_WAIT)))
        for step in self._steps.all():
            if time.monotonic() > step.damaged_since + DAMAGED_SECONDS and (damage := process_wide.damage()):
                background_thread.end_damaged_process(damage)
            if self._stuck and step.ran >= step.limits.hard and self._steps.claim_end(step):
                self._end_stuck(step, self._stuck)
            elif self._stuck and time.monotonic() > step.leave_at:
                self._leave_stuck_coroutine(step, self._stuck)
            elif self._stuck and time.monotonic() > step.stores_since + queue_settings().store_seconds:
                self._leave_stuck_store(step, self._stuck)
            elif step.ran >= step.limits.soft:
                reason = f"it ran longer than its soft time limit of {step.limits.soft:g} s"
                self._steps.abort(step, reason, timed_out=True)
        return 0.01

    def _next_in(self) -> float:
        """Seconds until the next step exceeds a limit."""
        return min((_left(step) for step in self._steps.all()), default=LONGEST_WAIT)

    def _end_stuck(self, step: RunningStep, stuck: StuckSteps) -> None:
        """A coroutine that its cancellation stops leaves nothing behind for which the process must end."""
        if step.is_async:
            failed = self._timed_out(step)
            step.leave_at = time.monotonic() + ABORT_SECONDS
            stuck.end(step, failed)
            return
        step.stuck = True
        with log_context.about(step.grant, self._worker.name):
            logger.error(
                "%s: still running %.0f s after its start: it ends as a timeout, and this process ends "
                "when its other steps have (exit code %d)", step.grant, step.ran, STEP_STUCK,
            )  # fmt: skip
        stuck.end(step, self._timed_out(step))
        self._leave_soon(stuck)

    def _timed_out(self, step: RunningStep) -> Failed:
        failed = Failed("timeout", pool_children.hard_limit_text(step.limits.hard), blames_service=False)
        step.signal.abort(failed.message, timed_out=True)
        return failed

    def _leave_stuck_coroutine(self, step: RunningStep, stuck: StuckSteps) -> None:
        step.stuck, step.leave_at = True, math.inf
        with log_context.about(step.grant, self._worker.name):
            logger.error(
                "%s: its coroutine still runs though it was cancelled: this process ends when its other "
                "steps have (exit code %d)", step.grant, STEP_STUCK,
            )  # fmt: skip
        self._leave_soon(stuck)

    def _leave_stuck_store(self, step: RunningStep, stuck: StuckSteps) -> None:
        """Its transaction, and with it the lease, is free once the process has ended."""
        step.stuck, step.stores_since = True, math.inf
        with log_context.about(step.grant, self._worker.name):
            logger.error(
                "%s: its store has run for over %.0f s: this process ends when its other steps have (exit "
                "code %d)", step.grant, queue_settings().store_seconds, STEP_STUCK,
            )  # fmt: skip
        self._leave_soon(stuck)

    def leave(self) -> None:
        """End this process as for a step that is stuck: a callback of a flow is. A child of a pool ends at
        once; its parent makes another."""
        if self._stuck is None:
            background_thread.end_process(STEP_STUCK)
        self._leave_soon(self._stuck)

    def _leave_soon(self, stuck: StuckSteps, code: int = STEP_STUCK) -> None:
        self._worker.draining.set()
        background_thread.start_vital("sluice-leave", partial(self._leave_and_exit, stuck, code))

    def leave_damaged(self, damage: str) -> None:
        """Take no more work, let the other steps end, and end this process; returns at once."""
        if self._stuck is None or self._worker.draining.is_set():
            return
        logger.critical(
            "this process is damaged: %s; it ends when its steps have (exit code %d)", damage, THREAD_DIED
        )
        self._leave_soon(self._stuck, THREAD_DIED)

    def _leave_and_exit(self, stuck: StuckSteps, code: int) -> None:
        self._worker.draining.set()
        stuck.leave()
        give_up = time.monotonic() + queue_settings().shutdown_grace
        while any(not step.stuck for step in self._steps.all()):
            if time.monotonic() > give_up:
                self._steps.abort_all(SHUTDOWN)
            if time.monotonic() > give_up + ABORT_SECONDS:
                break
            time.sleep(0.1)
        background_thread.end_process(code)


DAMAGED_SECONDS = 2.0
"""How long a damaged process tries to store the result of the step that damaged it."""

ABORT_SECONDS = 5.0
"""How long aborted steps get to end before their process does."""


def limited(ending: Finish, step: RunningStep) -> Finish:
    """The ending, with a store that says when it was called: it may run for `SLUICE_STORE_SECONDS`."""
    result = ending.result
    if not isinstance(result, Done | Snoozed | Failed) or result.store is None:
        return ending
    store = result.store

    def timed() -> None:
        step.stores_since = time.monotonic()
        pool_children.show_storing(step.grant.lease_id, queue_settings().store_seconds)
        try:
            application_call.call(store, take=refuse_not_run)
        finally:
            process_wide.raise_limits()
            step.stores_since = math.inf
            pool_children.show_ending(step.grant.lease_id)

    return replace(ending, result=replace(result, store=timed))


def _left(step: RunningStep) -> float:
    if step.ending:
        ends = min(
            step.stores_since + queue_settings().store_seconds,
            step.damaged_since + DAMAGED_SECONDS,
            step.leave_at,
        )
        return min(LONGEST_WAIT, ends - time.monotonic())
    limit = step.limits.hard if step.signal.aborted or step.ran >= step.limits.soft else min(step.limits)
    return limit - step.ran
