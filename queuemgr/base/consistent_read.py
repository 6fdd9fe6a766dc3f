"""A read-only snapshot: several statements see the database at one point in time, and lock nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from queuemgr.base import sql

_BEGIN = {"postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "sqlite": "BEGIN DEFERRED"}
"""The project's SQLite transactions begin by taking the write lock, which a reader must not hold."""


@contextmanager
def consistent_read() -> Iterator[None]:
    """Every statement inside sees the rows as they were at the first one; none may write.

    Inside another transaction this does nothing: what that transaction sees is used.
    """
    if connection.in_atomic_block:
        yield
        return
    sql.run(_BEGIN[connection.vendor])
    try:
        yield
    finally:
        sql.run("ROLLBACK")
