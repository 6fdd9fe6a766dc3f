"""Emptying tables between tests, the record of changes too, which its triggers would refuse.

Permissions and content types stay: no test alters them, and making them anew takes longer than most
tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest
from django.core.management.commands import flush
from django.db import connection
from django.db.backends.base.operations import BaseDatabaseOperations

_stay: Any = import_module("queuemgr.migrations.0001_initial")
WITHOUT_TRIGGERS = {
    "sqlite": (_stay.NO_SQLITE, _stay.SQLITE),
    "postgresql": (
        ("ALTER TABLE queuemgr_change DISABLE TRIGGER USER",),
        ("ALTER TABLE queuemgr_change ENABLE TRIGGER USER",),
    ),
}
"""What lets rows of the record go, and what keeps them again."""


MADE_ONCE = {"auth_permission", "django_content_type"}
"""Tables `migrate` fills at its end."""


def let_flush_leave_what_is_made_once(patch: pytest.MonkeyPatch) -> None:
    """A flush would empty these as well, and then have them made again."""

    def sql_flush(style: Any, connection: Any, **options: Any) -> list[str]:
        tables = connection.introspection.django_table_names(
            only_existing=True, include_views=False
        )
        some = sorted({*tables} - MADE_ONCE)
        if connection.vendor == "postgresql" and not options.get("reset_sequences"):
            return _deletes(some)
        return list(connection.ops.sql_flush(style, some, **options))

    patch.setattr(flush, "sql_flush", sql_flush)
    patch.setattr(flush, "emit_post_migrate_signal", lambda *given: None)


def _deletes(tables: Sequence[str]) -> list[str]:
    """PostgreSQL truncates a table by making its files anew; few rows are deleted sooner."""
    return ["SET LOCAL session_replication_role = replica", *(f'DELETE FROM "{t}"' for t in tables)]


def let_flush_empty_the_record(patch: pytest.MonkeyPatch) -> None:
    """Django empties the tables after each test with transactions of its own."""
    execute = BaseDatabaseOperations.execute_sql_flush

    def around(operations: Any, statements: Sequence[str]) -> None:
        before, after = WITHOUT_TRIGGERS[operations.connection.vendor]
        execute(operations, [*before, *statements, *after])

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
