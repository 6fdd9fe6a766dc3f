"""Celery with flow control: the names an application writes its flows with.

    from queuemgr import Done, Flow, LeasedTask, Phase, Step, StepFailed, Work, enqueue, register_flow

Names that need Django's settings and models are imported when they are first asked for, so plain Python
steps may import `StepFailed` or `AbortSignal` from here.
`queuemgr.signals` has the signals it sends, `queuemgr.steptools` what long steps are built of, and
`queuemgr.extend` what an application's own settings, admin pages and commands are built of. Everything else
is private.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from queuemgr.base.errors import (
    Aborted,
    BadInput,
    ConfigurationError,
    LeaseLost,
    QueueFull,
    SluiceError,
    StepFailed,
)
from queuemgr.base.meters import Meter, register_meter
from queuemgr.flows.abort_signal import NEVER, AbortSignal
from queuemgr.flows.call import Call
from queuemgr.flows.flow import (
    CheckResult,
    Context,
    Flow,
    Link,
    NewExecution,
    Phase,
    Step,
    operator_status,
    register_flow,
)
from queuemgr.flows.outcomes import Done, Failed, Interrupted, Result, Skipped, Snoozed
from queuemgr.flows.retry_policy import Policy, no_retry
from queuemgr.flows.unique import Unique

if TYPE_CHECKING:
    from queuemgr.lifecycle.attempts import AttemptsSoFar
    from queuemgr.lifecycle.enqueue import MAX_KEY, Enqueued, atomically, enqueue, enqueue_many
    from queuemgr.tasks.batch_calls import completed_batch, current_batch, find_batch, open_batch
    from queuemgr.tasks.batch_handle import BatchHandle, MemberResult
    from queuemgr.tasks.handle import Handle, NoSuchExecution, TaskFailed, TaskNotRun
    from queuemgr.tasks.queued import Queued, queued
    from queuemgr.tasks.queued_task import QueuedTask
    from queuemgr.worker.application_code import as_result
    from queuemgr.worker.current_work import current_work
    from queuemgr.worker.leased_task import LeasedTask
    from queuemgr.worker.work import Work

_NEED_DJANGO = {
    "AttemptsSoFar": "queuemgr.lifecycle.attempts",
    **dict.fromkeys(
        ("MAX_KEY", "Enqueued", "atomically", "enqueue", "enqueue_many"), "queuemgr.lifecycle.enqueue"
    ),
    "LeasedTask": "queuemgr.worker.leased_task",
    **dict.fromkeys(
        ("completed_batch", "current_batch", "find_batch", "open_batch"), "queuemgr.tasks.batch_calls"
    ),
    **dict.fromkeys(("BatchHandle", "MemberResult"), "queuemgr.tasks.batch_handle"),
    **dict.fromkeys(("Handle", "NoSuchExecution", "TaskFailed", "TaskNotRun"), "queuemgr.tasks.handle"),
    **dict.fromkeys(("Queued", "queued"), "queuemgr.tasks.queued"),
    "QueuedTask": "queuemgr.tasks.queued_task",
    "as_result": "queuemgr.worker.application_code",
    "current_work": "queuemgr.worker.current_work",
    "Work": "queuemgr.worker.work",
}

__all__ = [
    "MAX_KEY", "NEVER", "AbortSignal", "Aborted", "AttemptsSoFar", "BadInput", "BatchHandle", "Call",
    "CheckResult", "ConfigurationError", "Context", "Done", "Enqueued", "Failed", "Flow", "Handle",
    "Interrupted", "LeaseLost", "LeasedTask", "Link", "MemberResult", "Meter", "NewExecution",
    "NoSuchExecution", "Phase", "Policy", "QueueFull", "Queued", "QueuedTask", "Result", "Skipped",
    "SluiceError", "Snoozed", "Step", "StepFailed", "TaskFailed", "TaskNotRun", "Unique", "Work", "as_result",
    "atomically", "completed_batch", "current_batch", "current_work", "enqueue", "enqueue_many",
    "find_batch", "no_retry", "open_batch", "operator_status", "queued", "register_flow", "register_meter",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a name that needs Django on first use (PEP 562)."""
    if name not in _NEED_DJANGO:
        raise AttributeError(f"module 'queuemgr' has no attribute {name!r}")
    try:
        value = globals()[name] = getattr(import_module(_NEED_DJANGO[name]), name)
    except RuntimeError as error:
        if "INSTALLED_APPS" not in str(error):
            raise
        raise ConfigurationError("'queuemgr' is not in INSTALLED_APPS of the settings: add it") from None
    return value
