"""Emptying tables between tests, the record of changes too, which its triggers would refuse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest
from django.db import connection
from django.db.backends.base.operations import BaseDatabaseOperations

_stay: Any = import_module("queuemgr.migrations.0007_changes_stay")
WITHOUT_TRIGGERS = {
    "sqlite": (_stay.NO_SQLITE, _stay.SQLITE),
    "postgresql": (
        ("ALTER TABLE queuemgr_change DISABLE TRIGGER USER",),
        ("ALTER TABLE queuemgr_change ENABLE TRIGGER USER",),
    ),
}
"""What lets rows of the record go, and what keeps them again."""


def let_flush_empty_the_record(patch: pytest.MonkeyPatch) -> None:
    """Django empties the tables after each test with transactions of its own."""
    flush = BaseDatabaseOperations.execute_sql_flush

    def around(operations: Any, statements: Sequence[str]) -> None:
        before, after = WITHOUT_TRIGGERS[operations.connection.vendor]
        flush(operations, [*before, *statements, *after])

    patch.setattr(BaseDatabaseOperations, "execute_sql_flush", around)


def forget_changes() -> None:
    """Empty the record of changes, for tests that play many histories in one database."""
    with _allowed(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM queuemgr_change")


@contextmanager
def _allowed() -> Iterator[None]:
    before, after = WITHOUT_TRIGGERS[connection.vendor]
    with connection.cursor() as cursor:
        for statement in before:
            cursor.execute(statement)
        yield
        for statement in after:
            cursor.execute(statement)
