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
from functools import partial
from typing import Any

from queuemgr.base import application_call, db_connection, scheduler_lock, sql, transaction
from queuemgr.base.db_connection import can_commit
from queuemgr.base.errors import StepFailed
from queuemgr.base.misconduct import Misconduct, refuse_not_run
from queuemgr.base.queue_database import connection
from queuemgr.base.raised import is_raised
from queuemgr.base.redaction import describe_error
from queuemgr.flows.outcome_checks import checked
from queuemgr.flows.outcomes import Done, Failed, Result, Snoozed
from queuemgr.lifecycle import log_context
from queuemgr.lifecycle.lease_locks import HeldLease

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

    Raises `TransactionBroken`, which the caller must let end the transaction, and what the database says when
    it could store nothing just now: the result waits until it can.
    """
    if not isinstance(result, Done | Snoozed | Failed) or result.store is None:
        return result
    began = time.monotonic()
    cost = None if isinstance(result, Snoozed) else result.cost
    failed, returned, conflict = None, False, False
    hooks = len(connection.run_on_commit)
    try:
        with transaction.atomic():
            application_call.call(result.store, take=refuse_not_run)
            returned = True
            _guard_hooks(lease, hooks)
    except BaseException as error:  # sys.exit() in a store must not end a worker
        if not returned and sql.cannot_now(error):
            raise
        failed = _failure(lease, error, cost) if not returned else Failed("unexpected", ENDED, cost=cost)
        conflict = sql.is_conflict(error)
    _log_if_slow(lease, time.monotonic() - began)
    if conflict or not can_commit(connection):
        lost = failed or Failed("unexpected", ENDED, cost=cost)
        raise TransactionBroken(lost, may_pass=conflict or _connection_lost())
    scheduler_lock.end_when_frozen()  # from here on others may wait for this transaction
    return failed or result


def _guard_hooks(lease: HeldLease, first: int) -> None:
    """Have what the store registered by `on_commit` fail by itself: the result is stored by then."""
    hooks: list[Any] = connection.run_on_commit  # its stubs are of an older Django
    hooks[first:] = [
        (where, partial(_call_hook, lease, function), True) for where, function, _ in hooks[first:]
    ]


def _call_hook(lease: HeldLease, function: Callable[[], object]) -> None:
    try:
        application_call.call(function, take=refuse_not_run)
    except BaseException as error:  # sys.exit() here must not end a worker either
        with log_context.about(lease, lease.worker):
            logger.error(
                "%s: its result is stored, but a function that its store gave to on_commit failed: %s",
                lease, describe_error(error), exc_info=error,
            )  # fmt: skip


ENDED = f"its store {db_connection.ENDED}"


def _failure(lease: HeldLease, error: BaseException, cost: int | None) -> Failed:
    if is_raised(error, StepFailed):
        return _said_by(error, cost)
    with log_context.about(lease, lease.worker):
        logger.error("%s: storing its result failed", lease, exc_info=error)
    said = f"its store {error}" if is_raised(error, Misconduct) else describe_error(error)
    return Failed("unexpected", said, cost=cost)


def _said_by(error: StepFailed, cost: int | None) -> Failed:
    """What it says of itself, which is the application's code, too."""
    try:
        stored = checked(Failed(error.kind, error.message, error.retry_after, cost, error.limit))
    except BaseException as second:
        problem = f"{describe_error(error)}; reading it raised {describe_error(second)}"
        return Failed("unexpected", problem, cost=cost)
    return stored if isinstance(stored, Failed) else Failed("unexpected", describe_error(error), cost=cost)


def _connection_lost() -> bool:
    """Whether the connection was lost rather than closed by the store."""
    driver = connection.connection
    return (
        driver is not None and not connection.closed_in_transaction and bool(getattr(driver, "closed", False))
    )


def _log_if_slow(lease: HeldLease, seconds: float) -> None:
    if seconds < SLOW_SECONDS:
        return
    waits = "; on SQLite all other writes waited" if connection.vendor == "sqlite" else ""
    with log_context.about(lease, lease.worker):
        logger.warning("%s: its store took %.1f s%s", lease, seconds, waits)
