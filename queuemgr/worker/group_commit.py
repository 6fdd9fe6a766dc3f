"""Group commit: one thread begins and finishes leases for all slots of a worker process.

While one transaction runs, requests of other slots queue up, and the next transaction takes them all.
So finishes that arrive together share a transaction, and the process needs one database connection for
the queue however many slots it has. A request whose rows somebody else has locked is put off, and holds up
none of the others. Only a step whose result has a `store` ends its lease on its slot's
own connection: that is the application's code, and holds up nobody else.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from queue import Empty, SimpleQueue
from typing import NamedTuple, TypeVar
from uuid import UUID

from django.db import Error as DatabaseError

from queuemgr.base import sql
from queuemgr.base.config import queue_settings
from queuemgr.base.db_connection import database, one_turn
from queuemgr.base.queue_database import connection
from queuemgr.base.redaction import describe_error
from queuemgr.flows.outcomes import Failed, Result
from queuemgr.lifecycle import begin as beginning
from queuemgr.lifecycle import finish, log_context, redispatch_timer, result_store
from queuemgr.lifecycle.dispatch import for_others, grant_to
from queuemgr.lifecycle.finish import Finish, StoreRuns
from queuemgr.lifecycle.lease_locks import RowsBusy
from queuemgr.lifecycle.leases import Grant
from queuemgr.lifecycle.scheduler import FreeSlots
from queuemgr.models import Lease
from queuemgr.worker import attempt_log, background_thread, drain_orders, process_wide, worker_row
from queuemgr.worker.broker_sender import BrokerSender
from queuemgr.worker.current_worker import CurrentWorker
from queuemgr.worker.loop_answer import LoopAnswer
from queuemgr.worker.put_off import PutOff
from queuemgr.worker.running_steps import RunningStep

logger = logging.getLogger(__name__)

BATCH_SIZE = 256
"""Most requests in one transaction."""

GROUP_COMMIT_DELAY = 0.001
"""Seconds to wait for a batch as large as the last one: much less than a transaction costs."""

RETRY_DELAYS = (0.05, 0.2, 1, 2, 5)
"""Seconds between attempts while the database does not answer; the last is repeated."""

ALONE_WAIT_MS = 100
"""How long the end of one lease by itself waits for a row that somebody holds, before it is put off."""

CONFLICTS = 5
"""How often a transaction is run again that the database undid for another one."""

REFUSALS = 3
"""How often a database that takes other writes may refuse one before that is the write's own fault."""


@dataclass(slots=True)
class _Request:
    """A slot's request: to begin a lease, to finish one (`ending`), or only to be given the next lease.

    `stored` once the ending is committed or refused; `put_off` while somebody else holds its rows;
    `answered` is set once `outcome` and `next_grant` are known.
    """

    lease_id: UUID | None = None
    ending: Finish | None = None
    wants_next: bool = False
    stored: bool = False
    put_off: bool = False
    outcome: str | None = None
    next_grant: Grant | None = None
    answered: threading.Event | LoopAnswer = field(init=False)

    @property
    def lease(self) -> UUID | None:
        """The lease it begins or ends."""
        return self.ending.lease_id if self.ending else self.lease_id


Process = Callable[[Sequence[_Request]], None]
T = TypeVar("T")


class LeaseEnd(NamedTuple):
    """The outcome recorded (None: the lease was gone), and the lease the slot runs next (None: free)."""

    outcome: str | None
    next_grant: Grant | None


class GroupCommitter:
    """Begins and finishes leases for all slots of this process, or for its async slots."""

    def __init__(self, worker: CurrentWorker, *, for_async_slots: bool = False) -> None:
        self._worker, self._for_async_slots = worker, for_async_slots
        self._requests: SimpleQueue[_Request] = SimpleQueue()
        self._put_off = PutOff[_Request]()
        self._last_batch_size = 1
        self._sender = BrokerSender(worker)
        name = "sluice-async-commit" if for_async_slots else "sluice-group-commit"
        background_thread.start_vital(name, self._run)

    def begin(self, lease_id: UUID) -> Grant | None:
        """Begin the lease a message brought; None if it cannot begin (already begun, or revoked)."""
        return self._submit(_Request(lease_id)).next_grant

    def finish(self, grant: Grant, ending: Finish, runtime: float, *, wants_next: bool) -> LeaseEnd:
        """Finish a lease whose step ran for `runtime` seconds.

        Returns when the result is stored, or found to be refused: while the database is away it waits.
        """
        result = ending.result
        if result_store.has_store(result):
            outcome = self._finish_with_store(grant, ending)
            next_grant = self._submit(_Request(wants_next=True)).next_grant if wants_next else None
        else:
            request = self._submit(_Request(ending=ending, wants_next=wants_next))
            outcome, next_grant = request.outcome, request.next_grant
        self._report(grant, outcome, result, runtime)
        return LeaseEnd(outcome, next_grant)

    def end(self, step: RunningStep, failed: Failed) -> LeaseEnd:
        """End the lease of a step that still runs."""
        ending = Finish(step.grant.lease_id, failed, log=attempt_log.text_for(failed, step.lines))
        return self.finish(step.grant, ending, step.ran, wants_next=False)

    def _finish_with_store(self, grant: Grant, ending: Finish) -> str | None:
        runs = StoreRuns()
        with database(), log_context.about(grant, self._worker.name):
            try:
                return _retry_while_away(
                    lambda: finish.finish_with_store(ending, runs), self._takes_writes, waits_for_space=True
                )
            except BaseException as error:  # what a store registered with on_commit() may exit, too
                process_wide.raise_limits()
                logger.error("%s: its result could not be stored", grant, exc_info=error)
                failed = _not_storable(ending, error)
        return self._submit(_Request(ending=failed)).outcome

    def _report(self, grant: Grant, outcome: str | None, result: Result, runtime: float) -> None:
        if outcome is not None:
            self._sender.ended(grant, outcome, result, runtime)
            return
        with log_context.about(grant, self._worker.name):
            logger.warning(
                "%s: its outcome (%s) after %.3f s is refused: the lease is not held any more",
                grant, type(result).__name__.lower(), runtime,
            )  # fmt: skip

    def _submit(self, request: _Request) -> _Request:
        answered = request.answered = threading.Event()
        self._requests.put(request)
        answered.wait()
        return request

    async def abegin(self, lease_id: UUID) -> Grant | None:
        """As `begin`, from a coroutine."""
        return (await self._asubmit(_Request(lease_id))).next_grant

    async def afinish(self, grant: Grant, ending: Finish, runtime: float, *, wants_next: bool) -> LeaseEnd:
        """As `finish`, from a coroutine, of a result without a store."""
        request = await self._asubmit(_Request(ending=ending, wants_next=wants_next))
        self._report(grant, request.outcome, ending.result, runtime)
        return LeaseEnd(request.outcome, request.next_grant)

    async def _asubmit(self, request: _Request) -> _Request:
        answered = request.answered = LoopAnswer()
        self._requests.put(request)
        await answered.wait()
        return request

    def _run(self) -> None:
        while True:
            batch = self._next_batch()
            with one_turn():
                self._process_all(batch)
                for request in self._put_off.round():
                    request.put_off = False
                    self._process_all([request])

    def _process_all(self, batch: Sequence[_Request]) -> None:
        begins = [request for request in batch if request.lease_id is not None]
        ends = [request for request in batch if request.lease_id is None]
        for requests, process in ((begins, self._begin), (ends, self._finish)):
            if requests:
                self._process(requests, process)

    def _next_batch(self) -> list[_Request]:
        """The requests that have arrived, none if one put off is due before any arrives; after a batch of
        several, wait briefly for as many again."""
        try:
            batch = [self._requests.get(timeout=self._put_off.seconds())]
        except Empty:
            return []
        until = time.monotonic() + GROUP_COMMIT_DELAY
        while len(batch) < BATCH_SIZE:
            wait = until - time.monotonic() if len(batch) < self._last_batch_size else 0
            try:
                batch.append(self._requests.get(wait > 0, max(wait, 0)))
            except Empty:
                break
        self._last_batch_size = len(batch)
        return batch

    def _process(self, requests: Sequence[_Request], process: Process) -> None:
        """Retry while the database does not answer; a request that fails is taken out of its batch, and one
        whose rows somebody has locked is put off."""
        try:
            _retry_while_away(lambda: process(requests), self._takes_writes)
        except RowsBusy as busy:
            self._process_but(busy.lease_ids, requests, process)
        except BaseException as error:
            process_wide.raise_limits()
            if len(requests) > 1:
                for request in requests:
                    self._process([request], process)
            elif _is_for_later(error):
                self._wait_alone(requests[0], error)
            else:
                self._fail(requests[0], error)
        finally:
            self._answer(requests)

    def _answer(self, requests: Sequence[_Request]) -> None:
        for request in requests:
            if not request.put_off:
                self._put_off.forget(request)
                request.answered.set()

    def _process_but(self, busy: Collection[UUID], requests: Sequence[_Request], process: Process) -> None:
        """Process those whose rows nobody has locked, and put the others off."""
        for request in requests:
            if request.lease in busy:
                self._delay(request, LOCKED)
        if free := [request for request in requests if request.lease not in busy]:
            self._process(free, process)

    def _wait_alone(self, request: _Request, error: BaseException) -> None:
        """It cannot be done now. If only the decision cannot, its lease is ended without one."""
        redispatch_timer.schedule_redispatch(0.0)
        if request.ending and not request.stored:
            self._end_alone(request, request.ending)
        elif request.lease_id:
            self._delay(request, sql.trouble(error))

    def _delay(self, request: _Request, why: str) -> None:
        request.put_off = True
        if self._put_off.add(request):
            logger.warning(
                "lease %s cannot be begun or ended yet: %s; everything else continues", request.lease, why
            )

    def _fail(self, request: _Request, error: BaseException) -> None:
        """A result that cannot be stored is a failure of its step; a lease that cannot begin expires."""
        ending = request.ending
        logger.error(
            "lease %s could not be begun or ended",
            ending.lease_id if ending else request.lease_id, exc_info=error,
        )  # fmt: skip
        if ending is None or request.stored:
            return
        failed = _not_storable(ending, error)
        if any(self._end_alone(request, each) for each in (ending, failed)):
            return
        logger.error("lease %s could not be ended: it will expire", ending.lease_id)

    def _end_alone(self, request: _Request, ending: Finish) -> bool:
        """End a lease without a decision: what failed may have been that. False if it cannot be ended; where
        somebody else holds its rows it is put off."""
        try:
            request.outcome = finish.finish_alone(ending, ALONE_WAIT_MS)
        except RowsBusy:
            self._delay(request, LOCKED)
        except BaseException as error:
            connection.close()
            if not _is_for_later(error):
                logger.error("lease %s: %s", ending.lease_id, describe_error(error))
                return False
            self._delay(request, sql.trouble(error))
        else:
            request.stored = True
            redispatch_timer.schedule_redispatch(0.0)
        return True

    def _takes_writes(self) -> bool:
        """Whether the database does what it refuses in another transaction: write a row."""
        try:
            worker_row.rewrite(self._worker.worker_id)
        except DatabaseError:
            connection.close()
            return False
        return True

    def _begin(self, requests: Sequence[_Request]) -> None:
        lease_ids = [request.lease_id for request in requests if request.lease_id]
        if not self._worker.takes_work:
            drain_orders.hand_back(lease_ids)
            return
        asked = time.monotonic()
        begun = beginning.begin(lease_ids, self._worker.worker_id)
        by_lease = {grant.lease_id: grant for grant in _still_held(begun.grants, asked)}
        for request in requests:
            if request.lease_id:
                request.next_grant = by_lease.pop(request.lease_id, None)
        redispatch_timer.schedule_redispatch(begun.next_wakeup)
        self._sender.began(begun.grants)

    def _finish(self, requests: Sequence[_Request]) -> None:
        """When the decision fails after the endings were committed, only the decision is made again."""
        asked, free_slots = time.monotonic(), self._free_slots(requests)
        endings = {r.ending.lease_id: r for r in requests if r.ending and not r.stored}
        finished = finish.finish_batch([r.ending for r in endings.values() if r.ending], free_slots)
        for lease_id, request in endings.items():
            request.outcome, request.stored = finished.outcomes.get(lease_id), True
        granted = (
            for_others(finished.granted) if finished.granted else grant_to(free_slots, finish.LOCK_WAIT_MS)
        )
        unassigned = _still_held(granted.assigned, asked)
        for request in requests:
            request.next_grant = unassigned.pop() if unassigned and request.wants_next else None
            request.answered.set()
        redispatch_timer.schedule_redispatch(granted.next_wakeup)
        self._sender.send(granted.to_send)
        self._sender.began(granted.assigned)

    def _free_slots(self, requests: Sequence[_Request]) -> FreeSlots | None:
        free = sum(request.wants_next for request in requests)
        if not free or not self._worker.takes_work:
            return None
        takes = self._worker.async_takes if self._for_async_slots else self._worker.takes
        return FreeSlots(self._worker.worker_id, takes, free)


def _still_held(grants: Sequence[Grant], asked: float) -> list[Grant]:
    """Those whose leases are held. The database's answer may come so late, over a broken network or to a
    process that was frozen, that they have been lost: their steps must not start any more."""
    if time.monotonic() - asked < queue_settings().lease_seconds / 2:
        return list(grants)
    held = set(Lease.objects.filter(pk__in=[grant.lease_id for grant in grants]).values_list("pk", flat=True))
    for grant in grants:
        if grant.lease_id not in held:
            logger.warning(
                "%s: it does not start: its lease was lost while the database's answer came", grant
            )
    return [grant for grant in grants if grant.lease_id in held]


def _not_storable(ending: Finish, error: BaseException) -> Finish:
    failed = Failed("unexpected", f"its result could not be stored: {describe_error(error)}")
    return replace(ending, result=failed, continuation=None)


LOCKED = "somebody else holds a lock in the database on a row it needs"


def _is_for_later(error: BaseException) -> bool:
    """Whether this may be done later, while others are done now: somebody holds a row it needs, or it does
    not fit on the database's disk."""
    return sql.is_busy(error) or sql.is_full(error)


def _retry_while_away(
    act: Callable[[], T], takes_writes: Callable[[], bool], *, waits_for_space: bool = False
) -> T:
    """Retry until the database answers; raise what it refuses while it takes other writes. With
    `waits_for_space` what does not fit on its disk is no refusal."""
    refused = conflicts = 0
    for delay in chain(RETRY_DELAYS, repeat(RETRY_DELAYS[-1])):
        try:
            return act()
        except DatabaseError as error:
            if sql.is_busy(error):
                raise
            connection.close()
            if sql.is_conflict(error):
                conflicts += 1
            elif not sql.is_full(error):
                refused += takes_writes()
            elif not waits_for_space and takes_writes():
                raise
            passing = sql.is_away(error) or sql.is_conflict(error)
            if not passing or refused >= REFUSALS or conflicts >= CONFLICTS:
                raise
            logger.warning("%s; retrying in %g s", sql.trouble(error), delay)
            time.sleep(delay)
    raise AssertionError("unreachable")
