"""A batch in Celery's eager mode: its calls run here and now, one after the other, then its callbacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from queuemgr.flows.call import Call
from queuemgr.flows.flow import NewExecution, get_flow
from queuemgr.flows.outcomes import Done, Failed
from queuemgr.models import BatchEvent
from queuemgr.tasks import eager
from queuemgr.tasks.batch_handle import BatchHandle, MemberResult, completed
from queuemgr.tasks.definition import TaskDefinition, definition_of
from queuemgr.tasks.eager import EagerHandle

R = TypeVar("R")


@dataclass(frozen=True)
class EagerBatchHandle(BatchHandle[R], Generic[R]):
    """A batch that has completed, with the results of its members in memory."""

    ended: tuple[MemberResult[R], ...] = ()

    @property
    def status(self) -> str:
        """`done` or `failed`."""
        return "failed" if any(member.state == "failed" for member in self.ended) else "done"

    def ready(self) -> bool:
        return True

    def wait(self, timeout: float | None = None) -> str:
        return self.status

    def results(self) -> Iterator[MemberResult[R]]:
        yield from self.ended


def run_batch(
    task: TaskDefinition, intakes: Iterable[NewExecution], name: str, callbacks: Mapping[str, Call]
) -> EagerBatchHandle[Any]:
    """Run these calls, and the callbacks that fit. Raises what a call raised, where Celery's
    `task_eager_propagates` is on."""
    ended = tuple(_result(eager.run(task, intake.payload, intake.key)) for intake in intakes)
    handle = EagerBatchHandle[Any](name, ended=ended)
    outcome = BatchEvent.SUCCESS if handle.status == "done" else BatchEvent.FAILURE
    within = completed.set(handle)
    try:
        for event in (BatchEvent.COMPLETE, outcome):
            if (call := callbacks.get(event)) and (called := definition_of(get_flow(call.flow))):
                eager.run(called, call.payload, call.key or f"{name}:{event}")
    finally:
        completed.reset(within)
    return handle


def _result(handle: EagerHandle[Any]) -> MemberResult[Any]:
    ended = handle.ended
    if isinstance(ended, Failed):
        return MemberResult(handle.key, handle.status, None, ended.kind, ended.message)
    return MemberResult(handle.key, handle.status, handle.result() if isinstance(ended, Done) else None)
