"""Migration operations that add indexes and constraints to large tables without blocking writers.

On PostgreSQL an index is built CONCURRENTLY, and a check is added NOT VALID and then validated; neither
blocks writers while the table is read. A migration with these needs `atomic = False`. One that was
killed half-way can be run again, because each operation first looks for what an earlier run left. On
SQLite, which has a single writer anyway, they are the plain operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.db.migrations.operations import AddConstraint, AddIndex
from django.db.models import CheckConstraint


class AddIndexConcurrently(AddIndex):
    """`AddIndex` that does not block writers."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        model = to_state.apps.get_model(app_label, self.model_name)
        if schema_editor.connection.vendor != "postgresql":
            add = super().database_forwards
            _add_once(
                schema_editor, model, self.index.name,
                lambda: add(app_label, schema_editor, from_state, to_state),
            )  # fmt: skip
        elif not _is_valid_index(schema_editor, self.index.name):
            schema_editor.execute(self.index.create_sql(model, schema_editor, concurrently=True))


class AddConstraintNotValid(AddConstraint):
    """`AddConstraint` that does not block writers, for a check or a unique index with a condition."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        model = to_state.apps.get_model(app_label, self.model_name)
        if schema_editor.connection.vendor != "postgresql":
            add = super().database_forwards
            _add_once(
                schema_editor, model, self.constraint.name,
                lambda: add(app_label, schema_editor, from_state, to_state),
            )  # fmt: skip
        elif isinstance(self.constraint, CheckConstraint):
            self._add_check(model, schema_editor)
        elif not _is_valid_index(schema_editor, self.constraint.name):
            sql = str(self.constraint.create_sql(model, schema_editor))
            schema_editor.execute(sql.replace("UNIQUE INDEX", "UNIQUE INDEX CONCURRENTLY", 1))

    def _add_check(self, model: Any, schema_editor: Any) -> None:
        name = schema_editor.quote_name(self.constraint.name)
        table = schema_editor.quote_name(model._meta.db_table)
        if not _constraint_exists(schema_editor, self.constraint.name):
            sql = str(self.constraint.create_sql(model, schema_editor))
            schema_editor.execute(f"{sql} NOT VALID")
        schema_editor.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {name}")


def _add_once(schema_editor: Any, model: Any, name: str, add: Callable[[], None]) -> None:
    """On SQLite: add the index or constraint unless it exists, in a transaction, since SQLite rebuilds
    the table and a migration killed without one would lose it."""
    if not _exists_in_sqlite(schema_editor.connection, model, name):
        with transaction.atomic(schema_editor.connection.alias):
            add()


def _is_valid_index(schema_editor: Any, name: str) -> bool:
    """Whether the index exists and is complete; an invalid one, left by a killed build, is dropped."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(
            "SELECT i.indisvalid FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid "
            "WHERE c.relname = %s AND pg_table_is_visible(c.oid)",
            [name],
        )
        found = cursor.fetchone()
    if found and not found[0]:
        schema_editor.execute(f"DROP INDEX CONCURRENTLY {schema_editor.quote_name(name)}")
    return bool(found and found[0])


def _constraint_exists(schema_editor: Any, name: str) -> bool:
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_constraint WHERE conname = %s", [name])
        return cursor.fetchone() is not None


def _exists_in_sqlite(connection: Any, model: Any, name: str) -> bool:
    """Whether SQLite has an index of that name, or the table a constraint of it. Django's introspection is
    not used: it misreads a check that contains a comma."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM sqlite_master WHERE tbl_name = %s AND "
            "(name = %s OR instr(sql, 'CONSTRAINT \"' || %s || '\"') > 0)",
            [model._meta.db_table, name, name],
        )
        return cursor.fetchone() is not None
