"""Empty the tables after each test, the audit log too, whose triggers refuse deletes.

Permissions and content types stay: no test changes them, and creating them again takes longer than most
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

_initial: Any = import_module("queuemgr.migrations.0001_first_release")
WITHOUT_TRIGGERS = {
    "sqlite": (_initial.NO_SQLITE, _initial.SQLITE),
    "postgresql": (("SET session_replication_role = replica",), ("RESET session_replication_role",)),
}
"""Statements that allow rows of the audit log to be deleted, and those that forbid it again. On PostgreSQL
they change no table, which every connection would have to read anew."""


FILLED_BY_MIGRATE = {"auth_permission", "django_content_type"}
"""Tables that `migrate` fills after the migrations."""


def keep_permissions_on_flush(patch: pytest.MonkeyPatch) -> None:
    """Django would empty them too, then fill them again."""

    def sql_flush(style: Any, connection: Any, **options: Any) -> list[str]:
        tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
        some = sorted({*tables} - FILLED_BY_MIGRATE)
        if connection.vendor == "postgresql" and not options.get("reset_sequences"):
            return _deletes(some)
        return list(connection.ops.sql_flush(style, some, **options))

    patch.setattr(flush, "sql_flush", sql_flush)
    patch.setattr(flush, "emit_post_migrate_signal", lambda *given: None)


def _deletes(tables: Sequence[str]) -> list[str]:
    """For few rows, DELETE is faster than TRUNCATE, which creates the files of each table again."""
    return [f'DELETE FROM "{table}"' for table in tables]


def empty_audit_log_on_flush(patch: pytest.MonkeyPatch) -> None:
    """Disable the triggers around the flush that Django runs after each transactional test."""
    execute = BaseDatabaseOperations.execute_sql_flush

    def around(operations: Any, statements: Sequence[str]) -> None:
        before, after = WITHOUT_TRIGGERS[operations.connection.vendor]
        every = [*before, *statements, *after]
        execute(operations, ["; ".join(every)] if operations.connection.vendor == "postgresql" else every)

    patch.setattr(BaseDatabaseOperations, "execute_sql_flush", around)


def delete_audit_log() -> None:
    """For tests that run many histories in one database."""
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
