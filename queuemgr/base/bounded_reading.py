"""Statements that read much, stopped after their time instead of letting a page wait for them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from django.db import OperationalError

from queuemgr.base import sql, transaction
from queuemgr.base.queue_database import connection

CANCELED = "57014"
"""PostgreSQL's code for a statement that was stopped."""

STEPS = 10_000
"""Of SQLite's virtual machine, between two looks at the clock: less than a millisecond."""


class TookTooLong(Exception):
    """A statement had its time; what it would have found is not known."""


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Raise `TookTooLong` out of the block if a statement in it takes longer (on SQLite: the whole block).

    On PostgreSQL statements use an index rather than read a table, where there is one for them: of a table
    with wide rows the index with the searched column is a tenth.
    """
    block = _on_postgresql if connection.vendor == "postgresql" else _on_sqlite
    try:
        with block(seconds):
            yield
    except OperationalError as error:
        code = getattr(error.__cause__, "sqlstate", "") or str(error)
        if code in (CANCELED, "interrupted"):
            raise TookTooLong from error
        raise


@contextmanager
def _on_postgresql(seconds: float) -> Iterator[None]:
    """An error rolls the settings back with its savepoint; without one they would outlast the block in a
    transaction around it."""
    with transaction.atomic():
        (before,) = sql.rows(_Settings, _READ)
        sql.rows(_Settings, _SET, [f"{max(1, round(seconds * 1000))}ms", "off"])
        yield
        sql.rows(_Settings, _SET, before)


class _Settings(NamedTuple):
    statement_timeout: str
    enable_seqscan: str


_READ = "SELECT current_setting('statement_timeout'), current_setting('enable_seqscan')"
_SET = "SELECT set_config('statement_timeout', %s, true), set_config('enable_seqscan', %s, true)"


@contextmanager
def _on_sqlite(seconds: float) -> Iterator[None]:
    connection.ensure_connection()
    driver, end = connection.connection, time.monotonic() + seconds
    driver.set_progress_handler(lambda: time.monotonic() > end, STEPS)
    try:
        yield
    finally:
        driver.set_progress_handler(None, 0)
