"""The one thread of a worker process through which its slots begin and end their leases.

While one transaction is under way the other slots queue up, and the next transaction takes them all:
finishes that arrive together share its cost, and the process needs one connection for the queue
however many slots it has.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from queue import Empty, SimpleQueue
from uuid import UUID

from django.db import Error as DatabaseError
from django.db import connection

from queuemgr.base import sql
from queuemgr.base.config import queue_settings
from queuemgr.flows.outcomes import Result
from queuemgr.lifecycle import begin as beginning
from queuemgr.lifecycle import finish, redispatch_timer
from queuemgr.lifecycle.finish import Finish
from queuemgr.lifecycle.leases import Grant
from queuemgr.lifecycle.scheduler import FreeSlots
from queuemgr.worker.broker_sender import BrokerSender
from queuemgr.worker.current_worker import CurrentWorker

logger = logging.getLogger(__name__)

BATCH = 256
"""Most begins and ends in one transaction."""

GROUP_COMMIT_DELAY = 0.001
"""How long a batch waits to become as large as the one before: a transaction costs more than that."""

WAITS = (0.05, 0.2, 1, 2, 5)
"""Seconds between tries while the database does not answer; the last is repeated."""


@dataclass(frozen=True, slots=True)
class Response:
    """What came of an ending: how the attempt was recorded (None: its lease was gone), and what the
    slot runs next, or None when it is free to go."""

    outcome: str | None
    grant: Grant | None


@dataclass(slots=True)
class _Request:
    """A slot's request, and where it waits for the answer: the next grant, or None."""

    lease_id: UUID
    ended: Grant | None = None
    result: Result | None = None
    wants_next: bool = False
    runtime: float = 0.0
    answer: Grant | None = None
    outcome: str | None = None
    answered: threading.Event = field(default_factory=threading.Event)


class GroupCommitter:
    """Begins and ends leases for all slots of this process."""

    def __init__(self, worker: CurrentWorker) -> None:
        self._worker = worker
        self._calls: SimpleQueue[_Request] = SimpleQueue()
        self._company = 1
        self._outbox = BrokerSender(worker)
        threading.Thread(target=self._serve, name="sluice-combiner", daemon=True).start()

    def begin(self, lease_id: UUID) -> Grant | None:
        """Begin the lease a message brought; None when it is not there to begin."""
        return self._ask(_Request(lease_id)).answer

    def end(self, grant: Grant, result: Result, runtime: float, *, wants_next: bool) -> Response:
        """End a lease that ran for so many seconds."""
        call = self._ask(_Request(grant.lease_id, grant, result, wants_next, runtime))
        return Response(call.outcome, call.answer)

    def _ask(self, call: _Request) -> _Request:
        self._calls.put(call)
        call.answered.wait()
        return call

    def _serve(self) -> None:
        while True:
            calls = self._gather()
            begins = [call for call in calls if call.result is None]
            ends = [call for call in calls if call.result is not None]
            for batch, serve in ((begins, self._begin), (ends, self._end)):
                if batch:
                    self._serve_patiently(batch, serve)

    def _gather(self) -> list[_Request]:
        """What has arrived; when calls came in company last time, wait a moment for as many."""
        calls = [self._calls.get()]
        until = time.monotonic() + GROUP_COMMIT_DELAY
        while len(calls) < BATCH:
            patience = until - time.monotonic() if len(calls) < self._company else 0
            try:
                calls.append(self._calls.get(patience > 0, max(patience, 0)))
            except Empty:
                break
        self._company = len(calls)
        return calls

    def _serve_patiently(
        self, calls: Sequence[_Request], serve: Callable[[Sequence[_Request]], None]
    ) -> None:
        """Try again while the database is away; one call that cannot be served spoils no other."""
        try:
            _retry_while_away(serve, calls)
        except Exception:
            if len(calls) > 1:
                for call in calls:
                    self._serve_patiently([call], serve)
            else:
                logger.exception(
                    "lease %s could not be written; it will run out", calls[0].lease_id
                )
        finally:
            for call in calls:
                call.answered.set()

    def _begin(self, calls: Sequence[_Request]) -> None:
        if self._worker.draining.is_set():
            return
        begun = beginning.begin([call.lease_id for call in calls], self._worker.worker_id)
        by_lease = {grant.lease_id: grant for grant in begun.grants}
        for call in calls:
            call.answer = by_lease.pop(call.lease_id, None)
        redispatch_timer.schedule_redispatch(begun.next_wakeup)
        self._outbox.began(begun.grants)

    def _end(self, calls: Sequence[_Request]) -> None:
        endings = [Finish(call.lease_id, call.result) for call in calls if call.result is not None]
        ended = finish.finish_batch(endings, self._hands(calls))
        handed = list(ended.granted.assigned)
        for call in calls:
            call.answer = handed.pop() if handed and call.wants_next else None
            call.outcome = ended.outcomes.get(call.lease_id)
        self._release(calls)
        redispatch_timer.schedule_redispatch(ended.granted.next_wakeup)
        self._outbox.send(ended.granted.to_send)
        for call in calls:
            if call.outcome is not None and call.ended is not None:
                self._outbox.ended(call.ended, call.outcome, call.result, call.runtime)
        self._outbox.began(ended.granted.assigned)

    @staticmethod
    def _release(calls: Sequence[_Request]) -> None:
        for call in calls:
            call.answered.set()

    def _hands(self, calls: Sequence[_Request]) -> FreeSlots | None:
        free = sum(call.wants_next for call in calls)
        if not free or self._worker.draining.is_set():
            return None
        return FreeSlots(self._worker.worker_id, self._worker.queues, free)


def _retry_while_away(
    serve: Callable[[Sequence[_Request]], None], calls: Sequence[_Request]
) -> None:
    """Try until the database answers, or the leases have run out and nothing could be stored."""
    give_up = time.monotonic() + queue_settings().lease_seconds
    for wait in chain(WAITS, repeat(WAITS[-1])):
        try:
            return serve(calls)
        except DatabaseError as error:
            connection.close()
            if not sql.is_away(error) or time.monotonic() > give_up:
                raise
            logger.warning("database does not answer (%s); again in %g s", error, wait)
            time.sleep(wait)
    return None
