"""Runs a step's `store`, the application's code, inside the transaction that ends its lease.

Whatever it does to that transaction, one outcome is recorded: a store that raises is rolled back by
itself and has failed; one that ended or closed the transaction has failed, too, and the lease is ended
in another one. No lock is held meanwhile but that of the lease's own row. On SQLite a transaction is the
write lock: everything else that writes waits for a slow store there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from django.db import connection, transaction

from queuemgr.base import scheduler_lock
from queuemgr.base.errors import StepFailed
from queuemgr.base.redaction import describe_error
from queuemgr.flows.outcome_checks import checked
from queuemgr.flows.outcomes import Done, Failed, Result, Snoozed
from queuemgr.lifecycle import log_context
from queuemgr.lifecycle.leases import HeldLease

logger = logging.getLogger(__name__)

SLOW_SECONDS = 1.0
"""A store that takes longer is logged: on SQLite every write of the fleet waits for it."""


class TransactionBroken(Exception):
    """The transaction that a store ran in is gone; `instead` is what to record in another one.

    `may_pass` when the database may be at fault (a lost connection, a deadlock), not the store: then it may
    be run once more.
    """

    def __init__(self, instead: Failed, *, may_pass: bool) -> None:
        super().__init__(instead.message)
        self.instead, self.may_pass = instead, may_pass


def has_store(result: Result) -> bool:
    return isinstance(result, Done | Snoozed | Failed) and result.store is not None


def without_store(result: Result) -> Result:
    return replace(result, store=None) if isinstance(result, Done | Snoozed | Failed) else result


def run(lease: HeldLease, result: Result) -> Result:
    """Run the store of this result, if it has one; returns the result, or how the store failed.

    Raises `TransactionBroken`, which the caller must let end the transaction.
    """
    if not isinstance(result, Done | Snoozed | Failed) or result.store is None:
        return result
    began = time.monotonic()
    cost = None if isinstance(result, Snoozed) else result.cost
    failed, returned, conflict = None, False, False
    try:
        with transaction.atomic():
            returned = _call(result.store)
    except BaseException as error:  # sys.exit() in a store must not end a worker
        failed = _failure(lease, error, cost) if not returned else Failed("unexpected", ENDED, cost=cost)
        conflict = _is_conflict(error)
    _log_if_slow(lease, time.monotonic() - began)
    if conflict or not _transaction_lives():
        lost = failed or Failed("unexpected", ENDED, cost=cost)
        raise TransactionBroken(lost, may_pass=conflict or _connection_lost())
    scheduler_lock.end_when_frozen()  # from here on others may wait for this transaction
    return failed or result


class BlockNeverLeft(Exception):
    """A store entered `transaction.atomic()` and did not leave it."""

    def __str__(self) -> str:
        return "its store entered transaction.atomic() and never left it: what it wrote was rolled back"


def _call(store: Callable[[], object]) -> bool:
    """Call it; blocks that it entered and never left are forgotten, or ours would end one of theirs."""
    savepoints, blocks = len(connection.savepoint_ids), len(connection.atomic_blocks)
    try:
        store()
    finally:
        left_open = len(connection.atomic_blocks) > blocks
        del connection.savepoint_ids[savepoints:]
        del connection.atomic_blocks[blocks:]
    if left_open:
        raise BlockNeverLeft
    return True


ENDED = (
    "its store ended the transaction it was called in: write through the connection it is given, and "
    "leave COMMIT, ROLLBACK and close() to the queue"
)


def _failure(lease: HeldLease, error: BaseException, cost: int | None) -> Failed:
    if isinstance(error, StepFailed):
        stored = checked(Failed(error.kind, error.message, error.retry_after, cost, error.limit))
        return stored if isinstance(stored, Failed) else Failed("unexpected", describe_error(error))
    with log_context.about(lease, lease.worker):
        logger.error("%s: storing its result failed", lease, exc_info=error)
    return Failed("unexpected", describe_error(error), cost=cost)


def _is_conflict(error: BaseException) -> bool:
    """A deadlock or a serialization failure (SQLSTATE class 40): the transaction may be run again."""
    state = getattr(error.__cause__ or error, "sqlstate", None)
    return isinstance(state, str) and state.startswith("40")


def _connection_lost() -> bool:
    """Whether the connection was lost rather than closed by the store."""
    driver = connection.connection
    return (
        driver is not None and not connection.closed_in_transaction and bool(getattr(driver, "closed", False))
    )


def _transaction_lives() -> bool:
    """Whether the transaction that the store was called in is still there, and usable."""
    driver = connection.connection
    if driver is None or connection.closed_in_transaction or connection.needs_rollback:
        return False
    if connection.vendor == "sqlite":
        return bool(driver.in_transaction)
    return not driver.closed and driver.info.transaction_status.name == "INTRANS"


def _log_if_slow(lease: HeldLease, seconds: float) -> None:
    if seconds < SLOW_SECONDS:
        return
    waits = "; on SQLite all other writes waited" if connection.vendor == "sqlite" else ""
    with log_context.about(lease, lease.worker):
        logger.warning("%s: its store took %.1f s%s", lease, seconds, waits)
