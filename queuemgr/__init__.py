"""Celery with flow control: the names an application writes its flows with.

    from queuemgr import Done, Flow, LeasedTask, Phase, Step, StepFailed, Work, enqueue, register_flow

A name is imported when it is first asked for, so importing `queuemgr` needs neither Django's settings
nor its models, and plain Python steps may import `StepFailed` or `AbortSignal` from here.
`queuemgr.steptools` has what long steps are built of, and `queuemgr.extend` what an application's own
settings, admin pages and commands are built of. Everything else is private.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from queuemgr.base.errors import (
        Aborted,
        BadInput,
        ConfigurationError,
        LeaseLost,
        QueueFull,
        SluiceError,
        StepFailed,
    )
    from queuemgr.flows.abort_signal import NEVER, AbortSignal
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
    from queuemgr.lifecycle.attempts import AttemptsSoFar
    from queuemgr.lifecycle.enqueue import MAX_KEY, Enqueued, atomically, enqueue, enqueue_many
    from queuemgr.worker.leased_task import LeasedTask, Work, as_result

_HOME = {
    "queuemgr.base.errors": (
        "Aborted", "BadInput", "ConfigurationError", "LeaseLost", "QueueFull", "SluiceError",
        "StepFailed",
    ),
    "queuemgr.flows.abort_signal": ("NEVER", "AbortSignal"),
    "queuemgr.flows.flow": (
        "CheckResult", "Context", "Flow", "Link", "NewExecution", "Phase", "Step",
        "operator_status", "register_flow",
    ),
    "queuemgr.flows.outcomes": ("Done", "Failed", "Interrupted", "Result", "Skipped", "Snoozed"),
    "queuemgr.flows.retry_policy": ("Policy", "no_retry"),
    "queuemgr.lifecycle.attempts": ("AttemptsSoFar",),
    "queuemgr.lifecycle.enqueue": (
        "MAX_KEY", "Enqueued", "atomically", "enqueue", "enqueue_many",
    ),
    "queuemgr.worker.leased_task": ("LeasedTask", "Work", "as_result"),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "MAX_KEY",
    "NEVER",
    "AbortSignal",
    "Aborted",
    "AttemptsSoFar",
    "BadInput",
    "CheckResult",
    "ConfigurationError",
    "Context",
    "Done",
    "Enqueued",
    "Failed",
    "Flow",
    "Interrupted",
    "LeaseLost",
    "LeasedTask",
    "Link",
    "NewExecution",
    "Phase",
    "Policy",
    "QueueFull",
    "Result",
    "Skipped",
    "SluiceError",
    "Snoozed",
    "Step",
    "StepFailed",
    "Work",
    "as_result",
    "atomically",
    "enqueue",
    "enqueue_many",
    "no_retry",
    "operator_status",
    "register_flow",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'queuemgr' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value
