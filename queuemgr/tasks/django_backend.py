"""A backend of Django's Tasks framework: its tasks are queued, with priorities, times, results and limits.

    TASKS = {"default": {"BACKEND": "queuemgr.django_tasks.Backend", "QUEUES": ["default", "mail"]}}

A queue of the framework is a phase. A priority below 0 is low, 0 normal, above 0 high. An exception is not
retried, as with the framework's own backends, unless `retries` says so: options of `queued` may be given in
`OPTIONS` for all tasks of a backend, and to `@task` where the framework passes them on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from celery import shared_task
from django.utils import timezone

from queuemgr.base import transaction
from queuemgr.base.errors import BadInput, ConfigurationError
from queuemgr.flows.flow import HIGH, LOW, NORMAL, PHASE_NAME
from queuemgr.flows.outcomes import Done, Failed, Result
from queuemgr.flows.retry_policy import Policy
from queuemgr.flows.unique import Unique
from queuemgr.models import Execution
from queuemgr.tasks import django_result
from queuemgr.tasks.call_arguments import CallArguments
from queuemgr.tasks.definition import DEFAULT_PHASE, Cost, TaskDefinition, Uses
from queuemgr.tasks.django_framework import (
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskContext,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
    task_finished,
    task_started,
)
from queuemgr.tasks.enqueue_call import Placing, store_call
from queuemgr.tasks.limit_templates import StatedLimits
from queuemgr.tasks.queued_task import QueuedTask
from queuemgr.worker.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedDjangoTask(Task):  # type: ignore[misc]  # it is one of two classes
    """A task of the framework with the options of `queued`; None is what the backend's `OPTIONS` say."""

    limits: StatedLimits | None = None
    cost: Cost | None = None
    uses: Uses | None = None
    retries: int | Policy | None = None
    unique: str | Unique | None = None
    soft_time_limit: float | None = None
    time_limit: float | None = None
    keep_failed_days: float | None = None


OPTIONS = tuple(f.name for f in fields(QueuedDjangoTask) if f.name not in {g.name for g in fields(Task)})


@dataclass
class _Declared:
    """The tasks of a backend by the names of their flows, in the process that declared them."""

    tasks: dict[str, Any] = field(default_factory=dict)
    definitions: dict[str, TaskDefinition] = field(default_factory=dict)


class Backend(BaseTaskBackend):  # type: ignore[misc]  # it is one of two classes, too
    """Queues the calls of tasks; see the module."""

    task_class = QueuedDjangoTask
    supports_defer = supports_async_task = supports_get_result = supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self._declared = _Declared()
        if unknown := set(self.options) - set(OPTIONS):
            known = ", ".join(OPTIONS)
            raise ConfigurationError(
                f"TASKS[{alias!r}]: OPTIONS has {', '.join(unknown)}; there are: {known}"
            )

    def validate_task(self, task: Any) -> None:
        """Called when a task is declared, in every process: its flow is registered then.

        Raises `InvalidTask` for a task that cannot be queued.
        """
        super().validate_task(task)
        try:
            for queue in self.queues or {task.queue_name}:
                self._declare(task, queue)
        except (ConfigurationError, BadInput) as error:
            raise InvalidTask(str(error)) from None

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Enqueue a call, with the transaction around it; raises as `queued` does."""
        self.validate_task(task)
        definition = self._declared.definitions[_flow_name(task, task.queue_name)]
        payload = definition.arguments.payload(args, kwargs)
        placing = Placing(_rank(task.priority), task.run_after)
        handle = store_call(definition, payload, placing)
        made = django_result.new_result(task, handle.key, args, kwargs, self.alias, timezone.now())
        transaction.on_commit(lambda: task_enqueued.send(type(self), task_result=made), robust=True)
        return made

    def get_result(self, result_id: str) -> Any:
        """The result of this id as it is now. Raises `TaskResultDoesNotExist`."""
        flows = list(self._declared.definitions)
        execution = Execution.objects.filter(flow__in=flows, key=result_id).first()
        if execution is None:
            raise TaskResultDoesNotExist(result_id)
        return self.result_of(execution)

    def result_of(self, execution: Execution) -> Any:
        task, definition = self._declared.tasks[execution.flow], self._declared.definitions[execution.flow]
        return django_result.result_of(task, definition, execution, self.alias)

    def _declare(self, task: Any, queue: str) -> None:
        name = _flow_name(task, queue)
        if name in self._declared.definitions:
            return
        if not PHASE_NAME.fullmatch(queue):
            raise ConfigurationError(
                f"queue {queue!r}: a name has lower-case letters, digits and _, at most 32"
            )
        stated = {option: getattr(task, option, None) for option in OPTIONS}
        options = {"retries": 0, **self.options, **{n: v for n, v in stated.items() if v is not None}}
        left_out = ("context",) if task.takes_context else ()
        definition = TaskDefinition(
            name, CallArguments(task.module_path, task.func, leave_out=left_out), phase=queue, **options
        )
        definition.register()
        self._declared.definitions[name], self._declared.tasks[name] = definition, task
        shared_task(base=DjangoQueuedTask, name=name, definition=definition, owner=self, queued=task)(
            task.func
        )


class DjangoQueuedTask(QueuedTask):
    """The Celery task of one of the framework's: it gives the context, and sends the framework's signals."""

    abstract = True
    owner: Backend
    queued: Any

    def perform(self, work: Work) -> object:
        """Call the function with the stored arguments; returns the outcome."""
        self._send(task_started, work, TaskResultStatus.RUNNING)
        result = super().perform(work)
        if isinstance(result, Done):
            self._send(task_finished, work, TaskResultStatus.SUCCESSFUL)
        elif isinstance(result, Failed) and not self._is_retried(result):
            self._send(task_finished, work, TaskResultStatus.FAILED)
        return result

    def call(self, work: Work, args: Any, kwargs: Any) -> Any:
        if self.queued.takes_context:
            args = [TaskContext(task_result=self._result(work, TaskResultStatus.RUNNING)), *args]
        return super().call(work, args, kwargs)

    def _is_retried(self, result: Result) -> bool:
        return not isinstance(result, Failed) or bool(result.policy and result.policy.max_attempts > 1)

    def _result(self, work: Work, status: Any) -> Any:
        with work.database():
            execution = Execution.objects.get(pk=work.grant.execution_id)
            result = self.owner.result_of(execution)
        object.__setattr__(result, "status", status)
        result.worker_ids.append(self.request.hostname or "")
        return result

    def _send(self, signal: Any, work: Work, status: Any) -> None:
        """A receiver that raises must not fail the task, which is the application's, too."""
        if signal.has_listeners(type(self.owner)):
            signal.send_robust(type(self.owner), task_result=self._result(work, status))


def _flow_name(task: Any, queue: str) -> str:
    """The function's path; with the queue, where that is not the default one."""
    return str(task.module_path) if queue == DEFAULT_PHASE else f"{task.module_path}@{queue}"


def _rank(priority: int) -> int:
    return LOW if priority < 0 else HIGH if priority > 0 else NORMAL
