"""Group commit of what running steps use: one thread records it for all slots of a worker process.

While one statement runs, what other steps report queues up, and the next statement records it all. So a step
that pays for a request waits for a transaction, but neither has one of its own nor a connection for it. What
is not recorded here is recorded by the step itself, which finds out why: its lease is gone or reserved too
little, somebody holds its row, another thread of the step is recording, or the statement was refused.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from uuid import UUID

from django.db import OperationalError

from queuemgr.base import meters, process_state, sql
from queuemgr.base.db_connection import in_transaction, one_turn
from queuemgr.base.errors import ConfigurationError
from queuemgr.base.meters import Amounts
from queuemgr.base.queue_database import connection
from queuemgr.base.redaction import describe_error
from queuemgr.base.scheduler_lock import has_sessions
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.lifecycle import leases
from queuemgr.lifecycle.leases import Spending
from queuemgr.worker import event_loop, process_wide
from queuemgr.worker.background_thread import start_vital
from queuemgr.worker.loop_answer import LoopAnswer
from queuemgr.worker.step_usage import StepUsage

BATCH_SIZE = 256
"""Most steps in one statement."""

ABORT_CHECK = 0.5
"""Seconds between two looks of a step that waits at whether it is aborted."""


@dataclass(frozen=True, slots=True)
class Used:
    """What a step is about to use, or has used: requests that it sends, or amounts of other meters."""

    lease_id: UUID
    requests: int = 0
    amounts: Amounts = field(default_factory=dict)
    usage: StepUsage = field(default_factory=StepUsage)
    """What the step has used so far, of which the lease has the total."""


@dataclass(slots=True)
class _Request:
    used: Used
    answered: threading.Event | LoopAnswer
    recorded: bool = False
    error: BaseException | None = None

    def answer(self) -> bool:
        """Whether it was recorded. Raises `OperationalError` if the database may or may not have done so."""
        if self.error is not None:
            message = f"what the step uses could not be recorded: {describe_error(self.error)}"
            raise OperationalError(message) from self.error
        return self.recorded


class UsageCommitter:
    """Records what the steps of this process use."""

    def __init__(self) -> None:
        self._requests: SimpleQueue[_Request] = SimpleQueue()
        start_vital("sluice-usage-commit", self._run)

    def record(self, used: Used, signal: AbortSignal) -> bool:
        """Record this together with what other steps use; False if it must be recorded by itself.

        Raises `Aborted` when the step is aborted meanwhile, and `OperationalError`.
        """
        if in_transaction():
            return False
        answered = threading.Event()
        request = _Request(used, answered)
        self._requests.put(request)
        while not answered.wait(ABORT_CHECK):
            signal.raise_if_aborted()
        return request.answer()

    async def arecord(self, used: Used) -> bool:
        """As `record`, from a coroutine. One that has an event loop of its own may have been called in a
        transaction of the thread that waits for it."""
        if not event_loop.is_of_async_slots():
            return False
        answered = LoopAnswer()
        request = _Request(used, answered)
        self._requests.put(request)
        await answered.wait()
        return request.answer()

    def _run(self) -> None:
        while True:
            batch = [self._requests.get()]
            while len(batch) < BATCH_SIZE:
                try:
                    batch.append(self._requests.get_nowait())
                except Empty:
                    break
            with one_turn():
                _record(batch)


def _record(batch: Sequence[_Request]) -> None:
    try:
        _record_together(batch)
    except Exception as error:
        process_wide.raise_limits()
        if has_sessions() and sql.is_away(error):  # it may be recorded, so nobody may do it again
            for request in batch:
                request.error = error
        with suppress(Exception):
            connection.close()
    finally:
        for request in batch:
            request.answered.set()


def _record_together(batch: Sequence[_Request]) -> None:
    """Record one report of each step."""
    reports: dict[UUID, _Request] = {}
    totals: dict[UUID, Amounts] = {}
    try:
        for request in batch:
            lease_id, used = request.used.lease_id, request.used
            if lease_id not in reports and (total := used.usage.begin_adding(used.amounts)) is not None:
                reports[lease_id], totals[lease_id] = request, total
        recorded = leases.record_spending(list(_spending(reports, totals)))
        for lease_id, request in reports.items():
            request.recorded = lease_id in recorded
    finally:
        for lease_id, request in reports.items():
            request.used.usage.end_adding(totals[lease_id] if request.recorded else None)


def _spending(reports: Mapping[UUID, _Request], totals: Mapping[UUID, Amounts]) -> Iterator[Spending]:
    for lease_id, request in reports.items():
        with suppress(ConfigurationError):  # more meters than fit: the step is told when it records them
            uses = meters.as_text(totals[lease_id], zeros=True)
            yield Spending(lease_id, request.used.requests, uses)


_committer: UsageCommitter | None = None


def _reset() -> None:
    global _committer
    _committer = None


process_state.register(_reset, in_forked_child=True)


def use(committer: UsageCommitter) -> None:
    """Have the steps of this process record with this one; called once in a worker process."""
    global _committer
    _committer = committer


def recorded(used: Used, signal: AbortSignal) -> bool:
    """Whether it was recorded together with others; False outside a worker. Raises as its `record`."""
    return _committer is not None and _committer.record(used, signal)


async def arecorded(used: Used) -> bool:
    """As `recorded`, from a coroutine."""
    return _committer is not None and await _committer.arecord(used)
