"""Group commit: one thread begins and finishes leases for all slots of a worker process.

While one transaction runs, requests of other slots queue up, and the next transaction takes them all.
So finishes that arrive together share a transaction, and the process needs one database connection for
the queue however many slots it has.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import chain, repeat
from queue import Empty, SimpleQueue
from typing import NamedTuple
from uuid import UUID

from django.db import Error as DatabaseError
from django.db import connection

from queuemgr.base import sql
from queuemgr.base.config import queue_settings
from queuemgr.flows.outcomes import Result
from queuemgr.lifecycle import begin as beginning
from queuemgr.lifecycle import finish, log_context, redispatch_timer
from queuemgr.lifecycle.finish import Finish
from queuemgr.lifecycle.leases import Grant
from queuemgr.lifecycle.scheduler import FreeSlots
from queuemgr.worker.broker_sender import BrokerSender
from queuemgr.worker.current_worker import CurrentWorker

logger = logging.getLogger(__name__)

BATCH_SIZE = 256
"""Most requests in one transaction."""

GROUP_COMMIT_DELAY = 0.001
"""Seconds to wait for a batch as large as the last one: much less than a transaction costs."""

RETRY_DELAYS = (0.05, 0.2, 1, 2, 5)
"""Seconds between attempts while the database does not answer; the last is repeated."""


@dataclass(slots=True)
class _Request:
    """A slot's request to begin a lease, or to finish `ended` with `result`; `answered` is set once
    `outcome` and `next_grant` are known."""

    lease_id: UUID
    ended: Grant | None = None
    result: Result | None = None
    wants_next: bool = False
    runtime: float = 0.0
    outcome: str | None = None
    next_grant: Grant | None = None
    answered: threading.Event = field(default_factory=threading.Event)


Process = Callable[[Sequence[_Request]], None]


class LeaseEnd(NamedTuple):
    """The outcome recorded (None: the lease was gone), and the lease the slot runs next (None: free)."""

    outcome: str | None
    next_grant: Grant | None


class GroupCommitter:
    """Begins and finishes leases for all slots of this process."""

    def __init__(self, worker: CurrentWorker) -> None:
        self._worker = worker
        self._requests: SimpleQueue[_Request] = SimpleQueue()
        self._last_batch_size = 1
        self._sender = BrokerSender(worker)
        threading.Thread(target=self._run, name="sluice-group-commit", daemon=True).start()

    def begin(self, lease_id: UUID) -> Grant | None:
        """Begin the lease a message brought; None if it cannot begin (already begun, or revoked)."""
        return self._submit(_Request(lease_id)).next_grant

    def finish(self, grant: Grant, result: Result, runtime: float, *, wants_next: bool) -> LeaseEnd:
        """Finish a lease whose step ran for `runtime` seconds."""
        request = self._submit(_Request(grant.lease_id, grant, result, wants_next, runtime))
        return LeaseEnd(request.outcome, request.next_grant)

    def _submit(self, request: _Request) -> _Request:
        self._requests.put(request)
        request.answered.wait()
        return request

    def _run(self) -> None:
        while True:
            batch = self._next_batch()
            begins = [request for request in batch if request.result is None]
            ends = [request for request in batch if request.result is not None]
            for requests, process in ((begins, self._begin), (ends, self._finish)):
                if requests:
                    self._process_with_retry(requests, process)

    def _next_batch(self) -> list[_Request]:
        """The requests that have arrived; after a batch of several, wait briefly for as many again."""
        batch = [self._requests.get()]
        until = time.monotonic() + GROUP_COMMIT_DELAY
        while len(batch) < BATCH_SIZE:
            wait = until - time.monotonic() if len(batch) < self._last_batch_size else 0
            try:
                batch.append(self._requests.get(wait > 0, max(wait, 0)))
            except Empty:
                break
        self._last_batch_size = len(batch)
        return batch

    def _process_with_retry(self, requests: Sequence[_Request], process: Process) -> None:
        """Retry while the database does not answer; a request that fails is taken out of its batch."""
        try:
            _retry_while_away(process, requests)
        except Exception:
            if len(requests) > 1:
                for request in requests:
                    self._process_with_retry([request], process)
                return
            request, what = requests[0], "store its result" if requests[0].ended else "begin it"
            with log_context.about(request.ended, self._worker.name) if request.ended else nullcontext():
                logger.exception("lease %s: could not %s; it will expire", request.lease_id, what)
        finally:
            for request in requests:
                request.answered.set()

    def _begin(self, requests: Sequence[_Request]) -> None:
        if self._worker.draining.is_set():
            return
        begun = beginning.begin([r.lease_id for r in requests], self._worker.worker_id)
        by_lease = {grant.lease_id: grant for grant in begun.grants}
        for request in requests:
            request.next_grant = by_lease.pop(request.lease_id, None)
        redispatch_timer.schedule_redispatch(begun.next_wakeup)
        self._sender.began(begun.grants)

    def _finish(self, requests: Sequence[_Request]) -> None:
        finishes = [Finish(r.lease_id, r.result) for r in requests if r.result is not None]
        finished = finish.finish_batch(finishes, self._free_slots(requests))
        granted = finished.granted
        unassigned = list(granted.assigned)
        for request in requests:
            request.next_grant = unassigned.pop() if unassigned and request.wants_next else None
            request.outcome = finished.outcomes.get(request.lease_id)
            request.answered.set()
        redispatch_timer.schedule_redispatch(granted.next_wakeup)
        self._sender.send(granted.to_send)
        for request in requests:
            if request.outcome is not None and request.ended is not None:
                self._sender.ended(request.ended, request.outcome, request.result, request.runtime)
        self._sender.began(granted.assigned)

    def _free_slots(self, requests: Sequence[_Request]) -> FreeSlots | None:
        free = sum(request.wants_next for request in requests)
        if not free or self._worker.draining.is_set():
            return None
        return FreeSlots(self._worker.worker_id, self._worker.queues, free)


def _retry_while_away(process: Process, requests: Sequence[_Request]) -> None:
    """Retry until the database answers; raise once the leases must have expired."""
    give_up = time.monotonic() + queue_settings().lease_seconds
    for delay in chain(RETRY_DELAYS, repeat(RETRY_DELAYS[-1])):
        try:
            process(requests)
            return
        except DatabaseError as error:
            connection.close()
            if not sql.is_away(error) or time.monotonic() > give_up:
                raise
            logger.warning("database does not answer (%s); retrying in %g s", error, delay)
            time.sleep(delay)
