"""A connection beside the caller's, for rows that must be committed though its transaction stays open.

Such a row may be waited for by everybody who needs the same one, and the transaction may be one of the
application, and last.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections

from queuemgr.base import sql, transaction
from queuemgr.base.queue_database import alias, connection

LOCK_WAIT = "2s"
"""How long the other connection waits for a lock: the caller's own transaction may hold it."""


def is_needed() -> bool:
    """Whether the caller is in a transaction that may stay open, and would see what is committed beside it.

    Not in one of Django's `TestCase`, which is to leave nothing behind; and not on SQLite, where only one
    transaction writes.
    """
    if connection.vendor != "postgresql" or not connection.in_atomic_block:
        return False
    if any(getattr(block, "_from_testcase", False) for block in connection.atomic_blocks):
        return False
    return bool(sql.value("SHOW transaction_isolation") == "read committed")


@contextmanager
def transaction_apart() -> Iterator[None]:
    """Run the block in a transaction of a connection of its own, which is none of the pool: those may all be
    held by callers who want one more. Raises `OperationalError` when there is none to be had, or when a lock
    it needs stays taken."""
    name = alias()
    callers = connections[name]
    own = callers.copy()
    own.settings_dict["OPTIONS"].pop("pool", None)
    connections[name] = own
    try:
        with transaction.atomic():
            sql.value("SELECT set_config('lock_timeout', %s, true)", [LOCK_WAIT])
            yield
    finally:
        connections[name] = callers
        own.close()
