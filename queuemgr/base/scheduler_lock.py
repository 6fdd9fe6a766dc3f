"""One lock per fleet: who holds it counts the room and fills it; and the clock all agree on.

PostgreSQL: a transaction-level advisory lock, and the server's clock, so a worker whose own clock
is wrong cannot lengthen a lease. SQLite: every transaction is `BEGIN IMMEDIATE` (set in the
settings), so being in one is holding the lock; everyone is on one machine and shares its clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Self

from django.db import OperationalError, connection, transaction
from django.utils import timezone

from queuemgr.base import sql

SCHEDULER_LOCK = 0x51_01_CE_01
"""Held while one transaction decides what starts."""

PENDING_DISPATCH = 0x51_01_CE_02
"""Held by the one process waiting for DECIDING: whoever finds it taken knows that a snapshot not
yet taken will see all it has committed, and need not wait."""


def database_now() -> datetime:
    """The database's idea of now: the only clock leases are written and judged by."""
    return _ask("SELECT clock_timestamp()") if _has_locks() else timezone.now()


@contextmanager
def hold_scheduler_lock(line: PendingDispatch | None = None) -> Iterator[datetime]:
    """Hold the fleet's lock for one transaction, waiting for it; yields the database's now."""
    with transaction.atomic():
        _, now = _take("pg_advisory_xact_lock")
        if line is not None:
            line.leave()
        yield now


def acquire() -> None:
    """Inside a transaction: take the fleet's lock, waiting for it, until the transaction ends."""
    _take("pg_advisory_xact_lock")


def try_acquire(milliseconds: int) -> datetime | None:
    """Inside a transaction: take the fleet's lock and tell the time; None if it stayed busy so long."""
    taken, now = _take("pg_try_advisory_xact_lock")
    if taken:
        return now
    return database_now() if _wait(milliseconds) else None


def _take(function: str) -> tuple[object, datetime]:
    """Call a locking function, and tell the time after it; one trip for both."""
    if not _has_locks():
        return True, timezone.now()
    taken, now = sql.rows(f"SELECT {function}(%s), clock_timestamp()", [SCHEDULER_LOCK])[0]
    return taken, now


def _wait(milliseconds: int) -> bool:
    try:
        with transaction.atomic():
            _ask("SELECT set_config('lock_timeout', %s, true)", f"{int(milliseconds)}ms")
            _ask("SELECT pg_advisory_xact_lock(%s)", SCHEDULER_LOCK)
            _ask("SELECT set_config('lock_timeout', '0', true)")
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", "") == "55P03":  # lock_not_available
            return False
        raise
    return True


class PendingDispatch:
    """The one place in line for the lock; `mine` says whether this process stands there.

    Whoever stands in line leaves it once DECIDING is held and before the snapshot is read. The lock
    behind it is session-level: it outlives a transaction, so it is given up here in any case.
    """

    def __init__(self) -> None:
        self.mine = False

    def __enter__(self) -> Self:
        self.mine = not _has_locks() or bool(
            _ask("SELECT pg_try_advisory_lock(%s)", PENDING_DISPATCH)
        )
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Give the place up; harmless when it was given up before."""
        if self.mine and _has_locks():
            _ask("SELECT pg_advisory_unlock(%s)", PENDING_DISPATCH)
        self.mine = False


def _has_locks() -> bool:
    return connection.vendor == "postgresql"


def _ask(statement: str, *parameters: object) -> Any:
    """The one value a statement gives."""
    return sql.rows(statement, parameters)[0][0]
