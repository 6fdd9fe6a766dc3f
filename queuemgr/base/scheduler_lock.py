"""The scheduler lock: one transaction at a time decides what starts; and the database's clock.

PostgreSQL: a transaction-level advisory lock, which holds behind a pooler in transaction mode too, and the
server's clock, so that a worker whose own clock is wrong cannot lengthen a lease. SQLite: every transaction
is `BEGIN IMMEDIATE` (see the project's settings), so being in one is holding the lock; all processes share
one machine's clock.

Whoever waits for the lock waits with a bound, and a process frozen while it holds the lock loses it with its
session, which the server ends. Who finds it busy may leave a mark for its holder (`lifecycle.dispatch`); so
after each transaction that held it, somebody looks for marks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from django.db import OperationalError
from django.utils import timezone

from queuemgr.base import sql, transaction
from queuemgr.base.after_commit import after_commit
from queuemgr.base.queue_database import connection

SCHEDULER_LOCK = 0x51_01_CE_01
"""Held while one transaction decides what starts."""

WAIT_MS = 10_000
"""How long those who need the lock wait for it: far longer than any decision takes."""

FROZEN_SECONDS = 30
"""Seconds PostgreSQL waits for the next statement of a transaction that may hold up others, before it
ends the session."""

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


class SchedulerLockBusy(OperationalError):
    """The scheduler lock stayed busy for `WAIT_MS`; the message names the session that holds it."""


class _Clock:
    """`ahead` moves the database's time, for the tests of applications."""

    ahead = timedelta()


clock = _Clock()


def database_now() -> datetime:
    """The database's time: the only clock leases are written and judged by."""
    if not has_sessions():
        return timezone.now()
    now: datetime = sql.value("SELECT clock_timestamp()")
    return now + clock.ahead


def locked_at(times: Iterable[datetime | None]) -> datetime:
    """When the last of some rows was locked, of these times that the database gave with each: its time, as
    `database_now`, without a statement more. On SQLite, which gives none, it is now."""
    last = max((at for at in times if at), default=None)
    return database_now() if last is None else last + clock.ahead


def end_when_frozen(seconds: int = FROZEN_SECONDS, row_wait_ms: int | None = None) -> datetime:
    """Inside a transaction that may hold up others: have the server end its session when this process
    sends nothing for so many seconds. Returns the database's time, as `database_now`.

    With `row_wait_ms` the transaction waits no longer than that for any lock of a row or table: then the
    statement raises an error that `sql.is_busy` knows.
    """
    if not has_sessions():
        return timezone.now()
    settings = {"idle_in_transaction_session_timeout": seconds * 1000}
    if row_wait_ms is not None:
        settings["lock_timeout"] = row_wait_ms
    return sql.begin_with(settings) + clock.ahead


def limit_row_waits(milliseconds: int) -> None:
    """For the rest of this transaction, wait so long at most for any lock of a row or table; then the
    statement raises an error that `sql.is_busy` knows. On SQLite no transaction waits once it has begun."""
    if has_sessions():
        sql.value(f"SELECT {_ROW_LIMIT}", [f"{milliseconds}ms"])


ROW_WAIT_MS = 1000
"""How long a thread that others depend on waits for a row that somebody has locked: the queue's own
transactions hold rows for milliseconds."""


@contextmanager
def hold_scheduler_lock() -> Iterator[SchedulerLock]:
    """Hold the scheduler lock for one transaction; raises `SchedulerLockBusy` when it stays busy."""
    with transaction.atomic():
        yield acquire()


def acquire() -> SchedulerLock:
    """Inside a transaction: hold the scheduler lock until the transaction ends, and afterwards decide for
    those who found it busy. Raises `SchedulerLockBusy` when it stays busy for `WAIT_MS`."""
    lock = try_acquire(WAIT_MS)
    if lock is None:
        holder = lock_holder()
        by = f"held by {holder}" if holder else "and free again just now"
        raise SchedulerLockBusy(f"the scheduler lock was busy for {WAIT_MS / 1000:g} s, {by}")
    after_commit(_after_release)
    return lock


def try_acquire(wait_ms: int = 0) -> SchedulerLock | None:
    """Inside a transaction: as `acquire`, but None when the lock stays busy for so many milliseconds, and
    the caller looks for marks after its commit."""
    if not has_sessions():
        return _taken(timezone.now())
    attempt = sql.rows(_Attempt, _TRY, [f"{FROZEN_SECONDS}s", SCHEDULER_LOCK])[0]
    if attempt.taken:
        return _taken(attempt.now + clock.ahead)
    return _taken(database_now()) if wait_ms and _wait(wait_ms, _HOLD, [SCHEDULER_LOCK]) else None


def _taken(now: datetime) -> SchedulerLock:
    """The lock, which is held until the commit; then it is noted for how long."""
    after_commit(partial(_released, time.perf_counter()))
    return SchedulerLock(now, _KEY)


def _released(taken_at: float) -> None:
    _note_hold(time.perf_counter() - taken_at)


def is_held() -> bool:
    """Whether the current transaction holds the scheduler lock, and so must wait for nobody."""
    return has_sessions() and connection.in_atomic_block and bool(sql.column(_MINE, [SCHEDULER_LOCK]))


_MINE = """
    SELECT 1 FROM pg_locks
     WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted
       AND classid = 0 AND objid = %s::bigint AND objsubid = 1
"""


def hold_queues(queues: Mapping[int, str]) -> None:
    """Inside a transaction: hold the lock of each of these queues, given by id and name, until it ends; who
    enqueues into a capped queue takes it, and decisions do not. Raises `SchedulerLockBusy` when one stays
    busy for `WAIT_MS`."""
    if not has_sessions():
        return
    for pk, name in sorted(queues.items()):  # in one order, or two transactions would deadlock
        if not _wait(WAIT_MS, _HOLD_QUEUE, [QUEUE_LOCKS, pk]):
            raise SchedulerLockBusy(
                f"a transaction that enqueues into {name}, which has a cap, was open for over "
                f"{WAIT_MS / 1000:g} s"
            )


QUEUE_LOCKS = 0x51_01_CE_02
"""The space of the locks of queues, apart from that of single locks."""

_HOLD = "SELECT pg_advisory_xact_lock(%s)"
_HOLD_QUEUE = "SELECT pg_advisory_xact_lock(%s, %s)"


class _Attempt(NamedTuple):
    idle_limit: str
    taken: bool
    now: datetime


_IDLE_LIMIT = "set_config('idle_in_transaction_session_timeout', %s, true)"
"""For this transaction only: a pooler refuses it as a start-up parameter, and hands sessions on to others."""

_ROW_LIMIT = "set_config('lock_timeout', %s, true)"

_TRY = f"SELECT {_IDLE_LIMIT}, pg_try_advisory_xact_lock(%s), clock_timestamp()"


def _wait(milliseconds: int, statement: str, parameters: Sequence[int]) -> bool:
    try:
        with lock_timeout(milliseconds):
            sql.value(statement, parameters)
    except LockTimeout:
        return False
    return True


class LockTimeout(OperationalError):
    """A lock of the database stayed busy for longer than its `lock_timeout` allows."""


@contextmanager
def lock_timeout(milliseconds: int) -> Iterator[None]:
    """Inside a transaction: wait so long for each lock in the block, of rows too; then it is rolled back and
    raises `LockTimeout`. Afterwards the transaction's own `lock_timeout` holds again. On SQLite, whose
    transactions wait for no lock once they have begun, it changes nothing."""
    if not has_sessions():
        yield
        return
    before = sql.value("SELECT current_setting('lock_timeout')")
    try:
        with transaction.atomic():
            sql.value(_LOCK_TIMEOUT, [f"{int(milliseconds)}ms"])
            yield
            sql.value(_LOCK_TIMEOUT, [before])
    except OperationalError as error:
        if sql.is_busy(error):
            raise LockTimeout(f"a lock was busy for {milliseconds / 1000:g} s") from error
        raise


_LOCK_TIMEOUT = f"SELECT {_ROW_LIMIT}"


class LockHolder(NamedTuple):
    """A session that holds the scheduler lock. What the server does not show to this user is None."""

    pid: int
    application: str | None
    client: str | None
    idle: float | None
    """Seconds since it sent its last statement; None while it runs one."""

    def __str__(self) -> str:
        """As `pid 4711 (sluice worker, client 10.0.0.3), idle for 45 s`."""
        state = "busy" if self.idle is None else f"idle for {self.idle:.0f} s"
        return f"pid {self.pid} ({self.application or 'unnamed'}, client {self.client or 'local'}), {state}"


def lock_holder() -> LockHolder | None:
    """The session that holds the scheduler lock right now, if one does."""
    if not has_sessions():
        return None
    return next(iter(sql.rows(LockHolder, _HOLDER, [SCHEDULER_LOCK])), None)


_HOLDER = """
    SELECT l.pid, NULLIF(a.application_name, ''), host(a.client_addr),
           CASE WHEN a.state LIKE 'idle%%'
                THEN extract(epoch FROM clock_timestamp() - a.state_change)::float8 END
      FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
     WHERE l.locktype = 'advisory' AND l.granted AND l.classid = 0 AND l.objid = %s::bigint AND l.objsubid = 1
       AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


def has_sessions() -> bool:
    """Whether the lock can be busy: on SQLite, whoever is in a transaction has it."""
    return connection.vendor == "postgresql"


def _nobody_to_ask() -> None:
    """Nothing decides in a process that has not imported `lifecycle.dispatch`."""


_look_for_marks: Callable[[], object] = _nobody_to_ask


def look_for_marks_with(look: Callable[[], object]) -> None:
    """What to call after each transaction that took the lock with `acquire` has released it."""
    global _look_for_marks
    _look_for_marks = look


def _after_release() -> None:
    _look_for_marks()


def _nobody_counts(seconds: float) -> None:
    """In a process that has not imported `lifecycle.dispatch`."""


_note_hold: Callable[[float], object] = _nobody_counts


def note_holds_with(note: Callable[[float], object]) -> None:
    """What to call after each transaction that held the lock, with the seconds it was held."""
    global _note_hold
    _note_hold = note
