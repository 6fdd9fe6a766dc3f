"""What is wrong between this process and a database that answers, and what to do about it.

A pooler in transaction mode that is not configured, a session that holds the scheduler lock without doing
anything, clocks that differ. Checked by `doctor`, and by each worker as it starts.
"""

from __future__ import annotations

import select
import time
from typing import Any

from django.conf import settings
from django.utils import timezone

from queuemgr.base import scheduler_lock
from queuemgr.base.queue_database import connection
from queuemgr.base.unreachable import Problem, connect_directly

IDLE_SECONDS = 30
"""A session that holds the lock and sent nothing for so long is no decision under way."""

SKEW_SECONDS = 5

ANSWER_SECONDS = 2.0
"""How long a session of our own may take to say who it is."""


def held_lock() -> Problem | None:
    """A session that has held the scheduler lock without a statement for half a minute."""
    holder = scheduler_lock.lock_holder()
    if holder is None or holder.idle is None or holder.idle <= IDLE_SECONDS:
        return None
    return Problem(
        f"the scheduler lock is held by {holder}, so that nothing starts",
        f"end that session: SELECT pg_terminate_backend({holder.pid})",
    )


def transaction_pooling() -> Problem | None:
    """A pooler in transaction mode where the settings say there is none."""
    if not scheduler_lock.has_sessions() or _says_transaction_pooling() or not _sessions_are_swapped():
        return None
    return Problem(
        "the database is behind a pooler in transaction mode",
        "set SLUICE_TRANSACTION_POOLING=on, or use its session mode",
    )


def clock_off() -> Problem | None:
    """A clock of this machine that differs from the database's by more than `SKEW_SECONDS`."""
    skew = (timezone.now() - scheduler_lock.database_now()).total_seconds()
    if abs(skew) <= SKEW_SECONDS:
        return None
    return Problem(
        f"this machine's clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the database's",
        "correct it: what is enqueued here falls due by this clock",
    )


def all_problems() -> list[Problem]:
    return [problem for check in (transaction_pooling, held_lock, clock_off) if (problem := check())]


def _says_transaction_pooling() -> bool:
    return bool(settings.DATABASES[connection.alias].get("DISABLE_SERVER_SIDE_CURSORS"))


def _sessions_are_swapped() -> bool:
    """Whether a connection finds itself in another session, or in none, after a second one has begun a
    transaction, which keeps the session that was free."""
    first, second = connect_directly(), connect_directly()
    try:
        before = _ask(first, b"SELECT pg_backend_pid()")
        if _ask(second, b"BEGIN; SELECT pg_backend_pid()") is None:
            return False  # a pooler that has one session for us, and keeps it for the first connection
        return _ask(first, b"SELECT pg_backend_pid()") != before
    finally:
        for each in (second, first):
            each.close()


def _ask(session: Any, statement: bytes) -> bytes | None:
    """What the statement returns last; None when no answer comes in time."""
    session.pgconn.send_query(statement)
    until, answer = time.monotonic() + ANSWER_SECONDS, None
    while True:
        while session.pgconn.is_busy():
            left = until - time.monotonic()
            if left <= 0 or not select.select([session.pgconn.socket], [], [], left)[0]:
                return None
            session.pgconn.consume_input()
        result = session.pgconn.get_result()
        if result is None:
            return answer
        answer = result.get_value(0, 0) if result.ntuples else answer
