"""A handle of a batch: how far it is, what its members returned, and adding to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar, cast
from uuid import UUID

from asgiref.sync import sync_to_async

from queuemgr.base import transaction
from queuemgr.base.db_connection import database
from queuemgr.base.errors import BadInput
from queuemgr.base.safe_text import excerpt
from queuemgr.flows.flow import NORMAL, NewExecution, get_flow
from queuemgr.lifecycle.enqueue import Enqueued
from queuemgr.models import FINAL, Batch, BatchCallback, Execution, State
from queuemgr.operations import batches
from queuemgr.operations.controls import Actor
from queuemgr.reporting.batch_progress import progress_of
from queuemgr.tasks.definition import definition_of
from queuemgr.tasks.handle import FIRST_POLL, LAST_POLL, Handle, NoSuchExecution, deadline, next_pause
from queuemgr.worker.current_work import current_work, is_in_step

R = TypeVar("R")

PAGE = 200
"""Members whose results are in memory at once: each may be as large as a payload."""


class MemberResult(NamedTuple, Generic[R]):
    """How a member of a batch ended: `result` is what its last step returned, None where it is not done."""

    key: str
    state: str
    result: R | None
    error_kind: str = ""
    error: str = ""


@dataclass(frozen=True)
class BatchHandle(Generic[R]):
    """A batch: executions of one flow that are enqueued, followed and completed together."""

    name: str
    _read: Callable[[Any], Any] = field(default=lambda stored: stored, repr=False, compare=False)
    _intake: Callable[[Any], NewExecution] | None = field(default=None, repr=False, compare=False)
    _member: UUID | None = field(default=None, repr=False, compare=False)

    @property
    def status(self) -> str:
        """`open`, `running` (closed, with unfinished members), `done`, `failed` or `cancelled`.

        Raises `BadInput` if it is not there, or not any more.
        """
        return _status(self._row())

    @property
    def standing(self) -> str:
        """Its status, for who waits for it."""
        return self.status

    def ready(self) -> bool:
        """Whether it has completed."""
        return self._row().completed_at is not None

    def counts(self) -> dict[str, int]:
        """Its members by state, and in all (`total`)."""
        batch = self._row()
        progress = progress_of([batch])[batch.pk]
        return {name: getattr(progress, name) for name in ("total", *_COUNTED)}

    def wait(self, timeout: float | None = None) -> str:
        """Wait until it has completed; returns its status. `timeout` is in seconds.

        Raises `TimeoutError`, and `RuntimeError` in a transaction, which would not see it complete.
        """
        if transaction.get_connection().in_atomic_block and not self.ready():
            raise RuntimeError(f"{self} cannot be waited for inside a transaction: wait after its commit")
        until, pause = deadline(timeout), FIRST_POLL
        while not self.ready():
            time.sleep(next_pause(self, until, pause))
            pause = min(2 * pause, LAST_POLL)
        return self.status

    def results(self) -> Iterator[MemberResult[R]]:
        """The results of its members in order, up to the first that has not ended; read by pages, so that few
        are in memory at once."""
        after, pk = -1, self._row().pk
        while page := self._page(pk, after):
            for seq, key, state, stored, error_kind, error in page:
                if state not in FINAL:
                    return
                result = self._read(stored) if state == State.DONE and stored is not None else None
                yield MemberResult(key, str(state), cast("R | None", result), error_kind, error)
                after = seq
            if len(page) < PAGE:
                return

    def callback(self, event: str) -> Handle[Any]:
        """The handle of what it enqueues `on_complete`, `on_success` or `on_failure`, which is there once
        that has happened. Raises `BadInput` for one it does not have."""
        with _connection():
            found = self._row().callbacks.filter(event=event).first()
        if found is None:
            raise BadInput(f"{self} has no callback {excerpt(event)}")
        task = definition_of(get_flow(found.flow))
        return _CallbackHandle(found.flow, found.key, *([task.arguments.read_result] if task else []))

    def add(self, items: Iterable[Any], *, priority: int = NORMAL) -> Enqueued:
        """Append members: `NewExecution`s, or calls as `map` takes them in a batch of a task.

        A key that exists is left as it is. Raises `BadInput` for a closed batch, unless this is the handle
        that a running member got of `current_batch`; and `LeaseLost` when that member has lost its lease.
        """
        intakes = (self._as_intake(item) for item in items)
        with _connection():
            return batches.add(self._row(), intakes, priority=priority, member=self._member)

    def close(self) -> None:
        """Accept no more members, but by those that run: it completes when all have ended."""
        batches.close(self._row(), None)

    def cancel(self, reason: str = "") -> int:
        """Cancel what waits and have what runs stopped; returns how many members had not ended."""
        return batches.cancel(self._row(), Actor(PROGRAM, "code", reason))

    async def astatus(self) -> str:
        """As `status`."""
        return await sync_to_async(lambda: self.status)()

    async def awaited(self, timeout: float | None = None) -> str:
        """As `wait`, without blocking the event loop."""
        until, pause = deadline(timeout), FIRST_POLL
        while not await sync_to_async(self.ready)():
            await asyncio.sleep(await sync_to_async(next_pause)(self, until, pause))
            pause = min(2 * pause, LAST_POLL)
        return await self.astatus()

    async def aresults(self) -> AsyncIterator[MemberResult[R]]:
        """As `results`."""
        results = self.results()
        while (one := await sync_to_async(lambda: next(results, None))()) is not None:
            yield one

    def _page(self, pk: int, after: int) -> list[tuple[Any, ...]]:
        with _connection():
            members = Execution.objects.filter(batch=pk, batch_seq__gt=after).order_by("batch_seq")
            return list(members.values_list(*_COLUMNS)[:PAGE])

    def _as_intake(self, item: Any) -> NewExecution:
        return item if isinstance(item, NewExecution) or self._intake is None else self._intake(item)

    def _row(self) -> Batch:
        with _connection():
            return batches.find(self.name)

    def __str__(self) -> str:
        return f"batch {self.name}"


PROGRAM = "application"
"""Who cancels a batch by code, in the audit log."""


class _CallbackHandle(Handle[R]):
    """Of an execution that may not be there yet."""

    def _row(self, *columns: str) -> Execution:
        try:
            return super()._row(*columns)
        except NoSuchExecution:
            if BatchCallback.objects.filter(flow=self.flow, key=self.key, fired_at=None).exists():
                return Execution(flow=self.flow, key=self.key, state=State.WAITING)
        return super()._row(*columns)  # it may have fired between these two looks


_COLUMNS = ("batch_seq", "key", "state", "result", "error_kind", "error_message")
_COUNTED = ("waiting", "running", "done", "failed", "skipped", "cancelled")

completed: ContextVar[BatchHandle[Any] | None] = ContextVar("completed", default=None)
"""The batch whose callback runs at once, in Celery's eager mode."""


def _connection() -> AbstractContextManager[None]:
    """A step holds no connection between two pages, however long it works on the first."""
    return database() if is_in_step() else nullcontext()


def _status(batch: Batch) -> str:
    if batch.completed_at is None:
        return "open" if batch.closed_at is None else "running"
    if batch.cancelled_at:
        return "cancelled"
    return "done" if batch.succeeded else "failed"


def member_batch() -> tuple[Batch, UUID]:
    """The batch of the member whose step called this, and its lease. Raises `RuntimeError` for others."""
    work = current_work()
    with _connection():
        batch = Batch.objects.filter(executions=work.grant.execution_id).first()
    if batch is None:
        raise RuntimeError(f"{work.grant.flow}/{work.key} is a member of no batch")
    return batch, work.grant.lease_id


def batch_called_by() -> Batch:
    """The batch whose callback called this. Raises `RuntimeError` for another."""
    work = current_work()
    with _connection():
        callback = BatchCallback.objects.select_related("batch").filter(flow=work.grant.flow, key=work.key)
        found = callback.first()
    if found is None:
        raise RuntimeError(f"{work.grant.flow}/{work.key} is no callback of a batch")
    return found.batch
