"""Django signals of what happened to executions, limits and workers, sent after it was committed.

    from django.dispatch import receiver
    from queuemgr import signals

    @receiver(signals.execution_failed)
    def page_somebody(sender, event, **kwargs):
        print(event.flow, event.key, event.error_kind, event.error_message)

Receivers run in a thread of the process in which it happened, one event after the other and in their order:
a slow one delays no work, and one that raises is logged. They may use the database. An event is sent once
at most: one of a process that dies before it was received is lost, and so are those beyond 10,000 that
wait. What must follow for certain belongs in a step.

Modules with receivers are to be imported by every process, as by `AppConfig.ready`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.dispatch import Signal


@dataclass(frozen=True, slots=True)
class ExecutionEvent:
    """What happened to an execution. `error_kind` and `error_message` are of a failure, `worker` names who
    ran it, and `run_after` is when an attempt may follow."""

    flow: str
    key: str
    phase: str
    step: str
    worker: str = ""
    error_kind: str = ""
    error_message: str = ""
    run_after: datetime | None = None


@dataclass(frozen=True, slots=True)
class LimitEvent:
    """What happened to a limit, and why; `until` is when its open circuit breaker lets work start again."""

    limit: str
    reason: str = ""
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class WorkerEvent:
    """What happened to a worker."""

    worker: str
    queues: tuple[str, ...] = ()


execution_enqueued = Signal()
"""New: a key that was there already is not."""
execution_started = Signal()
"""A worker began a step of it."""
execution_finished = Signal()
"""Its last step is done, or was skipped."""
execution_failed = Signal()
"""For good: no attempt follows."""
execution_retried = Signal()
"""A step failed, and is attempted again."""
execution_lost = Signal()
"""The worker that ran it is gone; it is attempted again, unless `execution_failed` follows."""
execution_cancelled = Signal()
"""By a person, or with its batch."""

breaker_opened = Signal()
"""The circuit breaker of a limit, or a 429 throttles it: nothing starts under it for a while."""

worker_started = Signal()
worker_stopped = Signal()
"""It was shut down. Of one that died, `execution_lost` says what it ran."""
