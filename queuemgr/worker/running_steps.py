"""The steps this process runs right now, with the signal that aborts each, from their start until their
result is stored. The threads that renew, cancel and time out look here."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

from queuemgr.base.errors import UnknownFlow, UnknownStep
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.flow import get_flow
from queuemgr.lifecycle import log_context
from queuemgr.lifecycle.leases import Grant
from queuemgr.lifecycle.log_context import LogLine
from queuemgr.scheduling.phase_settings import TimeLimits, time_limits

logger = logging.getLogger(__name__)

SHUTDOWN, CANCELLED, LOST = "shutdown", "cancelled", "lease lost"
"""Reasons why a step is aborted."""

NO_LIMITS = TimeLimits(math.inf, math.inf)


@dataclass(eq=False, slots=True)
class RunningStep:
    """A step that runs: its lease, the signal that aborts it, and its time limits.

    `started` is of the monotonic clock. `ending` once its result is being stored: then its lease may be
    gone because it was ended well. `stuck` once its lease was ended because it ignored its time limit.
    `stores_since` is when its store was called, of the monotonic clock, while that runs; `damaged_since` when
    its process was found damaged after it. A coroutine (`is_async`) whose lease was ended has until
    `leave_at` to end, or its process does. `lines` are the last that it logged.
    """

    grant: Grant
    limits: TimeLimits
    signal: AbortSignal = field(default_factory=AbortSignal)
    started: float = field(default_factory=time.monotonic)
    ending: bool = False
    stuck: bool = False
    stores_since: float = math.inf
    damaged_since: float = math.inf
    is_async: bool = False
    leave_at: float = math.inf
    lines: deque[LogLine] | None = field(default_factory=log_context.lines)

    @property
    def ran(self) -> float:
        """Seconds since it started; its waits for its rates and for a slot of this machine do not count."""
        since = time.monotonic() - max(self.started, self.grant.not_before)
        return max(0.0, since - self.signal.waited)


class RunningSteps:
    """Those of this process, by lease."""

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._steps: dict[UUID, RunningStep] = {}
        self.changed = threading.Condition()

    @contextmanager
    def running(self, grant: Grant, *, is_async: bool = False) -> Iterator[RunningStep]:
        """Have this lease looked after while the block runs."""
        step = RunningStep(grant, _limits_of(grant), is_async=is_async)
        self._steps[grant.lease_id] = step
        if step.limits != NO_LIMITS:
            with self.changed:
                self.changed.notify_all()
        try:
            yield step
        finally:
            self._steps.pop(grant.lease_id, None)

    def all(self) -> list[RunningStep]:
        return list(self._steps.values())

    def claim_end(self, step: RunningStep) -> bool:
        """True for the one who ends its lease: the slot that ran it, or who found that it timed out."""
        with self.changed:
            if step.ending:
                return False
            step.ending = True
            return True

    def found_damage(self, step: RunningStep) -> None:
        """Its process is damaged: its result may never be stored."""
        step.damaged_since = time.monotonic()
        with self.changed:
            self.changed.notify_all()

    def abort(self, step: RunningStep, reason: str, *, timed_out: bool = False) -> None:
        """Set its signal, once; a step whose result is being stored is left alone."""
        if step.signal.aborted or step.ending:
            return
        with log_context.about(step.grant, self._worker):
            logger.warning("%s: aborting it (%s)", step.grant, reason)
        step.signal.abort(reason, timed_out=timed_out)

    def abort_all(self, reason: str) -> None:
        for step in self.all():
            self.abort(step, reason)


def _limits_of(grant: Grant) -> TimeLimits:
    try:
        return time_limits(get_flow(grant.flow).at(grant.phase, grant.step))
    except (UnknownFlow, UnknownStep):
        return NO_LIMITS
