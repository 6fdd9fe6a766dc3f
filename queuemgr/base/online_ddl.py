"""Indexes and constraints added to a large busy table without stopping those who write to it.

On PostgreSQL an index is built CONCURRENTLY and a check is added NOT VALID, then validated: neither
keeps writers out while the table is read. A migration with these must have `atomic = False`; killed
half-way it can be run again, since each first looks for what an earlier run left. SQLite has one
writer anyway: there they are the plain operations.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.migrations.operations import AddConstraint, AddIndex
from django.db.models import CheckConstraint


class AddIndexConcurrently(AddIndex):
    """`AddIndex` that lets writers go on."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        model = to_state.apps.get_model(app_label, self.model_name)
        if schema_editor.connection.vendor != "postgresql":
            if not _is_there(schema_editor.connection, model, self.index.name):
                # Without a transaction a table half remade would be lost with a killed migration.
                with transaction.atomic(schema_editor.connection.alias):
                    super().database_forwards(app_label, schema_editor, from_state, to_state)
        elif not _is_valid_index(schema_editor, self.index.name):
            schema_editor.execute(self.index.create_sql(model, schema_editor, concurrently=True))


class AddConstraintNotValid(AddConstraint):
    """`AddConstraint` of a check, or of a unique index with a condition, that lets writers go on."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        model = to_state.apps.get_model(app_label, self.model_name)
        if schema_editor.connection.vendor != "postgresql":
            if not _is_there(schema_editor.connection, model, self.constraint.name):
                # Without a transaction a table half remade would be lost with a killed migration.
                with transaction.atomic(schema_editor.connection.alias):
                    super().database_forwards(app_label, schema_editor, from_state, to_state)
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


def _is_valid_index(schema_editor: Any, name: str) -> bool:
    """Whether this index is there and whole; one that a killed build left behind is dropped."""
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


def _is_there(connection: Any, model: Any, name: str) -> bool:
    """Whether SQLite has an index, or this table a constraint, of that name. Asked of its own tables:
    Django's reading of a table takes a comma within a check for the end of a column."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM sqlite_master WHERE tbl_name = %s AND "
            "(name = %s OR instr(sql, 'CONSTRAINT \"' || %s || '\"') > 0)",
            [model._meta.db_table, name, name],
        )
        return cursor.fetchone() is not None
