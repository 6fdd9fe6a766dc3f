"""A handle of a call that was enqueued: where it stands, and what it returned."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, cast

from asgiref.sync import sync_to_async

from queuemgr.base import transaction
from queuemgr.base.errors import SluiceError
from queuemgr.lifecycle import enqueue_at_commit
from queuemgr.lifecycle.enqueue_at_commit import Pending
from queuemgr.models import FINAL, Attempt, Execution, State
from queuemgr.reporting import explain

R = TypeVar("R")

FIRST_POLL, LAST_POLL = 0.05, 1.0
"""Seconds between two looks at a row that is waited for: short at first, then longer."""


class TaskFailed(SluiceError):
    """The task failed for good. `kind` is its error kind, `traceback` that of its last attempt, masked."""

    def __init__(self, call: str, kind: str, message: str, traceback: str = "") -> None:
        super().__init__(call, kind, message, traceback)
        self.call, self.kind, self.message, self.traceback = call, kind, message, traceback

    def __str__(self) -> str:
        return f"{self.call} failed ({self.kind}): {self.message}"


class TaskNotRun(SluiceError):
    """The task ended without being run to its end: cancelled or skipped, for the reason given."""


class NoSuchExecution(SluiceError):
    """Nothing of this key is there: its transaction was rolled back, or retention deleted it."""


@dataclass(frozen=True, eq=False)
class Handle(Generic[R]):
    """A call of the task `flow`. Two handles of the same key are the same call."""

    flow: str
    key: str
    _read: Callable[[Any], Any] = field(default=lambda stored: stored, repr=False, compare=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and (self.flow, self.key) == (other.flow, other.key)

    def __hash__(self) -> int:
        return hash((self.flow, self.key))

    @property
    def id(self) -> str:
        """The key, as Celery calls it."""
        return self.key

    @property
    def status(self) -> str:
        """`waiting`, `running`, `done`, `failed`, `skipped` or `cancelled`. Raises `NoSuchExecution`."""
        state = self._row("state").state
        return State.WAITING.value if state == State.LEASED else str(state)

    @property
    def standing(self) -> str:
        """Its status, with why it waits."""
        row = self._row()
        return f"waiting: {explain.reasons().of(row)}" if row.state == State.WAITING else self.status

    def ready(self) -> bool:
        """Whether it has ended."""
        return self._row("state").state in FINAL

    def successful(self) -> bool:
        return self.status == State.DONE

    def result(self, timeout: float | None = None) -> R:
        """What the task returned, once it has ended; `timeout` is in seconds.

        Raises `TimeoutError`, `TaskFailed`, `TaskNotRun` and `NoSuchExecution`, and `RuntimeError` in the
        transaction that enqueued it: no worker sees it before the commit.
        """
        self._refuse_to_wait_for_own_transaction()
        until, pause = deadline(timeout), FIRST_POLL
        while not self.ready():
            time.sleep(next_pause(self, until, pause))
            pause = min(2 * pause, LAST_POLL)
        return self._outcome()

    get = result

    async def astatus(self) -> str:
        """As `status`."""
        return await sync_to_async(lambda: self.status)()

    async def aresult(self, timeout: float | None = None) -> R:
        """As `result`, without blocking the event loop."""
        until, pause = deadline(timeout), FIRST_POLL
        while not await sync_to_async(self.ready)():
            await asyncio.sleep(await sync_to_async(next_pause)(self, until, pause))
            pause = min(2 * pause, LAST_POLL)
        return await sync_to_async(self._outcome)()

    def _outcome(self) -> R:
        row = self._row("id", "state", "result", "error_kind", "error_message", "wait_reason")
        if row.state == State.DONE:
            return cast(R, None if row.result is None else self._read(row.result))
        if row.state == State.FAILED:
            last = Attempt.objects.filter(execution_id=row.pk).order_by("-pk").first()
            traceback = (last and last.traceback) or ""
            raise TaskFailed(str(self), row.error_kind, row.error_message, traceback)
        raise TaskNotRun(f"{self} was {row.state}: {row.wait_reason or 'no reason given'}")

    def _row(self, *columns: str) -> Execution:
        enqueue_at_commit.flush()
        row = Execution.objects.filter(flow=self.flow, key=self.key).only(*columns).first()
        if row is None:
            raise NoSuchExecution(f"{self}: there is no such execution; was its transaction rolled back?")
        return row

    def _refuse_to_wait_for_own_transaction(self) -> None:
        if transaction.get_connection().in_atomic_block and not self.ready():
            raise RuntimeError(f"{self} cannot be waited for inside a transaction: wait after its commit")

    def __str__(self) -> str:
        return f"{self.flow}/{self.key}"


class UniqueHandle(Handle[R]):
    """A call of a task with a `Unique`, in the transaction that makes it. Which execution that is turns out
    when it is inserted: once its key is read, else at the commit."""

    def __init__(self, pending: Pending, read: Callable[[Any], Any]) -> None:
        for name, value in (("flow", pending.new.row.flow), ("_read", read), ("_pending", pending)):
            object.__setattr__(self, name, value)

    @property
    def key(self) -> str:
        if not self._inserted.is_inserted:
            enqueue_at_commit.flush()
        return self._inserted.key

    @property
    def _inserted(self) -> Pending:
        pending: Pending = vars(self)["_pending"]
        return pending

    def __repr__(self) -> str:
        """Inserts nothing: who looks at a variable changes no row."""
        return f"UniqueHandle(flow={self.flow!r}, key={self._inserted.key!r})"


class Awaited(Protocol):
    """What is waited for."""

    @property
    def standing(self) -> str: ...


def deadline(timeout: float | None) -> float:
    return float("inf") if timeout is None else time.monotonic() + timeout


def next_pause(handle: Awaited, until: float, pause: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError(f"{handle} has not ended yet: it is {handle.standing}")
    return min(pause, left)
