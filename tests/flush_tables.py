"""Empty the tables after each test, the audit log too, whose triggers refuse deletes.

Permissions and content types stay: no test changes them, and creating them again takes longer than most
tests. Django's command `flush`, which this replaces, looks for modules of every application each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest
from django.core.management.color import no_style
from django.db import DatabaseError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import TransactionTestCase

_initial: Any = import_module("queuemgr.migrations.0001_first_release")
WITHOUT_TRIGGERS = {
    "sqlite": (_initial.NO_SQLITE, _initial.SQLITE),
    "postgresql": (("SET session_replication_role = replica",), ("RESET session_replication_role",)),
}
"""Statements that allow rows of the audit log to be deleted, and those that forbid it again. On PostgreSQL
they change no table, which every connection would have to read anew."""


FILLED_BY_MIGRATE = {"auth_permission", "django_content_type"}
"""Tables that `migrate` fills after the migrations."""

_tables: dict[str, Sequence[str]] = {}
"""Those of each database that a test may have filled, as they were found last."""


def flush_quickly(patch: pytest.MonkeyPatch) -> None:
    """Have it done so after each test that commits."""

    def flush(test: Any) -> None:
        for name in test._databases_names(include_mirrors=False):
            empty(connections[name])

    patch.setattr(TransactionTestCase, "_fixture_teardown", flush)


def empty(database: BaseDatabaseWrapper, *, renumber: bool = False) -> None:
    """Delete all rows, and with `renumber` have ids begin at 1 again. A test of migrations may have left
    other tables than there were."""
    name = str(database.settings_dict["NAME"])
    try:
        _delete(database, _tables[name], renumber)
    except (KeyError, DatabaseError):
        _tables[name] = _found(database)
        _delete(database, _tables[name], renumber)


def _found(database: BaseDatabaseWrapper) -> Sequence[str]:
    tables = database.introspection.django_table_names(only_existing=True, include_views=False)
    return sorted({*tables} - FILLED_BY_MIGRATE)


def _delete(database: BaseDatabaseWrapper, tables: Sequence[str], renumber: bool) -> None:
    postgres = database.vendor == "postgresql"
    if not (postgres or renumber):
        tables = _filled(database, tables)
    if postgres and not renumber:  # faster than TRUNCATE, which creates the files of each table again
        statements = [f'DELETE FROM "{table}"' for table in tables]
    else:
        statements = list(database.ops.sql_flush(no_style(), tables, reset_sequences=renumber))
    if "queuemgr_change" in tables:
        before, after = WITHOUT_TRIGGERS[database.vendor]
        statements = [*before, *statements, *after]
    if statements:
        database.ops.execute_sql_flush(["; ".join(statements)] if postgres else statements)


def _filled(database: BaseDatabaseWrapper, tables: Sequence[str]) -> list[str]:
    """Those with rows, by one statement, which SQLite's driver prepares once."""
    each = (f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM \"{table}\")" for table in tables)
    with database.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(each))
        return [table for (table,) in cursor.fetchall()]


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
