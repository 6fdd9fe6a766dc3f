"""Reading many figures of one moment: they add up, and nobody waits for the reader."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from queuemgr.base import sql

_BEGIN = {
    "postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "sqlite": "BEGIN DEFERRED",
}
"""SQLite's transactions begin by taking the write lock (settings), which a reader must not hold."""


@contextmanager
def consistent_read() -> Iterator[None]:
    """Every statement inside sees the rows as they were at the first one; none may write.

    Inside a transaction already under way, that one's view has to do.
    """
    if connection.in_atomic_block:
        yield
        return
    sql.run(_BEGIN[connection.vendor])
    try:
        yield
    finally:
        sql.run("ROLLBACK")
