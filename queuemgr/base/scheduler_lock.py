"""The scheduler lock: one transaction at a time decides what starts; and the database's clock.

PostgreSQL: a transaction-level advisory lock, and the server's clock, so that a worker whose own
clock is wrong cannot lengthen a lease. SQLite: every transaction is `BEGIN IMMEDIATE` (see the
project's settings), so being in one is holding the lock; all processes share one machine's clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import NamedTuple, Self

from django.db import OperationalError, connection, transaction
from django.utils import timezone

from queuemgr.base import sql

SCHEDULER_LOCK = 0x51_01_CE_01
"""Held while one transaction decides what starts."""

PENDING_DISPATCH = 0x51_01_CE_02
"""Held by the one process that waits for SCHEDULER_LOCK to dispatch. Whoever finds it taken need not
wait: that process has not read its snapshot yet, and will see everything committed by now."""

_KEY = object()


class SchedulerLock:
    """Proof that the current transaction holds the scheduler lock; functions that need it ask for one.

    `now` is the database's time when the lock was taken. Only this module makes these.
    """

    __slots__ = ("now",)

    def __init__(self, now: datetime, key: object) -> None:
        if key is not _KEY:
            raise TypeError("take the scheduler lock with hold_scheduler_lock, acquire or try_acquire")
        self.now = now


def database_now() -> datetime:
    """The database's time: the only clock leases are written and judged by."""
    return sql.value("SELECT clock_timestamp()") if _has_locks() else timezone.now()


@contextmanager
def hold_scheduler_lock(pending: PendingDispatch | None = None) -> Iterator[SchedulerLock]:
    """Wait for the scheduler lock and hold it for one transaction."""
    with transaction.atomic():
        lock = acquire()
        if pending is not None:
            pending.leave()
        yield lock


def acquire() -> SchedulerLock:
    """Inside a transaction: wait for the scheduler lock and hold it until the transaction ends."""
    return SchedulerLock(_take("pg_advisory_xact_lock").now, _KEY)


def try_acquire(milliseconds: int) -> SchedulerLock | None:
    """Inside a transaction: as `acquire`, but None when the lock stays busy for so many milliseconds."""
    result = _take("pg_try_advisory_xact_lock")
    if result.taken:
        return SchedulerLock(result.now, _KEY)
    return SchedulerLock(database_now(), _KEY) if _wait(milliseconds) else None


class _LockResult(NamedTuple):
    """Result of a locking function: whether it got the lock (only if it does not wait), and the time."""

    taken: object
    now: datetime


def _take(function: str) -> _LockResult:
    """Call a locking function and read the time after it, in one round trip."""
    if not _has_locks():
        return _LockResult(True, timezone.now())
    return sql.rows(_LockResult, f"SELECT {function}(%s), clock_timestamp()", [SCHEDULER_LOCK])[0]


def _wait(milliseconds: int) -> bool:
    try:
        with transaction.atomic():
            sql.value("SELECT set_config('lock_timeout', %s, true)", [f"{int(milliseconds)}ms"])
            sql.value("SELECT pg_advisory_xact_lock(%s)", [SCHEDULER_LOCK])
            sql.value("SELECT set_config('lock_timeout', '0', true)")
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", "") == "55P03":  # lock_not_available
            return False
        raise
    return True


_TRY_PENDING = "SELECT pg_try_advisory_lock(%s)"


class PendingDispatch:
    """Lets at most one process wait for the scheduler lock to dispatch: `acquired` says if it is this one.

    It is given up once the scheduler lock is held and before the snapshot is read. The lock behind it
    is session-level: it outlives a transaction, so leaving the `with` block gives it up in any case.
    """

    def __init__(self) -> None:
        self.acquired = False

    def __enter__(self) -> Self:
        self.acquired = not _has_locks() or sql.value(_TRY_PENDING, [PENDING_DISPATCH])
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Let another process wait; harmless when called again."""
        if self.acquired and _has_locks():
            sql.value("SELECT pg_advisory_unlock(%s)", [PENDING_DISPATCH])
        self.acquired = False


def _has_locks() -> bool:
    return connection.vendor == "postgresql"
