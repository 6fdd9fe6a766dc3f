"""Celery's eager mode (`CELERY_TASK_ALWAYS_EAGER`): a call runs here and now, and nothing is stored.

Its arguments and its result go through JSON, as they would otherwise. Limits, times and priorities mean
nothing; a retry follows at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

from celery import current_app

from queuemgr.base.db_connection import left_to_the_caller
from queuemgr.flows.outcomes import Done, Failed, Result, Skipped
from queuemgr.lifecycle.attempts import FailedAttempt
from queuemgr.tasks.called_work import called_work, remembering
from queuemgr.tasks.definition import TaskDefinition
from queuemgr.tasks.handle import Handle, TaskFailed, TaskNotRun
from queuemgr.worker.application_code import outcome_of
from queuemgr.worker.current_work import doing

R = TypeVar("R")


@dataclass(frozen=True)
class EagerHandle(Handle[R]):
    """A call that has ended: with this outcome."""

    ended: Result | None = None

    @property
    def status(self) -> str:
        """`done`, `failed` or `skipped`."""
        return {Done: "done", Skipped: "skipped"}.get(type(self.ended), "failed")

    def ready(self) -> bool:
        return True

    def result(self, timeout: float | None = None) -> R:
        """As that of a call which was stored."""
        if isinstance(self.ended, Done):
            return cast(R, None if self.ended.result is None else self._read(self.ended.result))
        if isinstance(self.ended, Failed):
            raise TaskFailed(str(self), self.ended.kind, self.ended.message, self.ended.traceback)
        raise TaskNotRun(f"{self} was not run: {getattr(self.ended, 'reason', self.ended)}")

    get = result

    async def astatus(self) -> str:
        return self.status

    async def aresult(self, timeout: float | None = None) -> R:
        return self.result()


def is_on() -> bool:
    return bool(current_app.conf.task_always_eager)


def run(definition: TaskDefinition, payload: Mapping[str, Any], key: str) -> EagerHandle[Any]:
    """Run the call. Raises what its function raised, where Celery's `task_eager_propagates` is on."""
    task: Any = current_app.tasks[definition.name]
    stored = json.loads(json.dumps(payload))
    failures: list[FailedAttempt] = []
    while True:
        work, raised = called_work(stored, key=key, failures=tuple(failures)), list[BaseException]()
        with doing(work), remembering(task, raised), left_to_the_caller():
            result = outcome_of(partial(task.perform, work), work.signal)
        if not isinstance(result, Failed) or _is_last(result, len(failures)):
            break
        failures.append(FailedAttempt(result.kind, result.message))
    if raised and isinstance(result, Failed) and current_app.conf.task_eager_propagates:
        raise raised[0]
    return EagerHandle(definition.name, key, definition.arguments.read_result, result)


def _is_last(failed: Failed, failures: int) -> bool:
    return failed.policy is None or failures + 1 >= failed.policy.max_attempts
