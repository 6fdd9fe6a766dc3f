"""A `TaskResult` of Django's Tasks framework, read from the rows of an execution."""

from __future__ import annotations

import re
from typing import Any

from queuemgr.models import Attempt, Execution, Outcome, State
from queuemgr.tasks.definition import TaskDefinition
from queuemgr.tasks.django_framework import TaskError, TaskResult, TaskResultStatus

STATUSES = {
    State.WAITING: TaskResultStatus.READY,
    State.LEASED: TaskResultStatus.READY,
    State.RUNNING: TaskResultStatus.RUNNING,
    State.DONE: TaskResultStatus.SUCCESSFUL,
    State.FAILED: TaskResultStatus.FAILED,
    State.SKIPPED: TaskResultStatus.FAILED,
    State.CANCELLED: TaskResultStatus.FAILED,
}
"""What was skipped or cancelled never returns anything: for the framework it has failed."""

NOT_RUN = "queuemgr.TaskNotRun"
NAMED_KIND = "queuemgr.StepFailed"
_LAST_LINE = re.compile(r"^(?P<path>[A-Za-z_][\w.]{0,200})(?::|$)", re.MULTILINE)


def new_result(task: Any, key: str, args: Any, kwargs: Any, backend: str, now: Any) -> Any:
    """The result of a call that was enqueued just now."""
    return TaskResult(
        task=task, id=key, status=TaskResultStatus.READY, enqueued_at=now, started_at=None, finished_at=None,
        last_attempted_at=None, args=list(args), kwargs=dict(kwargs), backend=backend, errors=[],
        worker_ids=[],
    )  # fmt: skip


def result_of(task: Any, definition: TaskDefinition, execution: Execution, backend: str) -> Any:
    """The result of a call as its rows say now."""
    args, kwargs = definition.arguments.call(definition.stored_arguments(execution.payload))
    attempts = list(execution.attempts.order_by("pk"))
    result = TaskResult(
        task=task, id=execution.key, status=STATUSES[State(execution.state)],
        enqueued_at=execution.created_at, finished_at=execution.finished_at,
        started_at=attempts[0].started_at if attempts else None,
        last_attempted_at=attempts[-1].started_at if attempts else None,
        args=args, kwargs=kwargs, backend=backend, errors=_errors(execution, attempts),
        worker_ids=[attempt.worker for attempt in attempts],
    )  # fmt: skip
    object.__setattr__(result, "_return_value", execution.result)
    return result


def _errors(execution: Execution, attempts: list[Attempt]) -> list[Any]:
    failed = [attempt for attempt in attempts if attempt.outcome in (Outcome.FAILED, Outcome.RETRIED)]
    errors = [
        TaskError(exception_class_path=_path(a), traceback=a.traceback or a.error_message) for a in failed
    ]
    if execution.state in (State.SKIPPED, State.CANCELLED):
        errors.append(TaskError(exception_class_path=NOT_RUN, traceback=execution.wait_reason))
    return errors


def _path(attempt: Attempt) -> str:
    """The dotted path of the exception's class: the last line of a traceback begins with it."""
    lines = _LAST_LINE.findall(attempt.traceback or "")
    if not lines or lines[-1] == "Traceback":
        return NAMED_KIND
    return lines[-1] if "." in lines[-1] else f"builtins.{lines[-1]}"
