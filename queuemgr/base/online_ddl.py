"""Migration operations that add indexes and constraints to large tables without blocking writers.

On PostgreSQL an index is built CONCURRENTLY, and a check is added NOT VALID and then validated; neither
blocks writers while the table is read. A migration with these needs `atomic = False`. One that was
killed half-way can be run again, because each operation first looks for what an earlier run left. On
SQLite, which has a single writer anyway, they are the plain operations.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from django.db import DatabaseError, connections, router, transaction
from django.db.migrations.operations import AddConstraint, AddIndex, AlterField
from django.db.models import CheckConstraint, Model


class _Online:
    """Runs `add_online` on PostgreSQL. On SQLite it runs the plain operation, unless it was run before: in a
    transaction, since SQLite rebuilds the table and a migration killed without one would lose it."""

    def database_forwards(self: Any, app_label: str, schema_editor: Any, before: Any, after: Any) -> None:
        model = after.apps.get_model(app_label, self.model_name)
        if not self.allow_migrate_model(schema_editor.connection.alias, model):
            return
        if schema_editor.connection.vendor == "postgresql":
            self.add_online(model, schema_editor)
        elif not _exists_in_sqlite(schema_editor, model, getattr(self, "index", None) or self.constraint):
            with transaction.atomic(schema_editor.connection.alias):
                super().database_forwards(app_label, schema_editor, before, after)  # type: ignore[misc]  # of AddIndex


class AddIndexConcurrently(_Online, AddIndex):
    """`AddIndex` that does not block writers."""

    def add_online(self, model: Any, schema_editor: Any) -> None:
        if not _is_valid_index(schema_editor, self.index.name):
            schema_editor.execute(self.index.create_sql(model, schema_editor, concurrently=True))


class WidenText(AlterField):
    """`AlterField` to a longer `max_length`: PostgreSQL rewrites nothing for it, and SQLite, whose columns
    hold texts of any length, would rebuild the table (without its triggers)."""

    def database_forwards(self, app_label: str, schema_editor: Any, before: Any, after: Any) -> None:
        if schema_editor.connection.vendor == "postgresql":
            super().database_forwards(app_label, schema_editor, before, after)


class AddConstraintNotValid(_Online, AddConstraint):
    """`AddConstraint` that does not block writers, for a check or a unique index with a condition."""

    def add_online(self, model: Any, schema_editor: Any) -> None:
        statement, name = str(self.constraint.create_sql(model, schema_editor)), self.constraint.name
        if isinstance(self.constraint, CheckConstraint):
            if not _first(schema_editor, "SELECT 1 FROM pg_constraint WHERE conname = %s", name):
                schema_editor.execute(f"{statement} NOT VALID")
            table = schema_editor.quote_name(model._meta.db_table)
            schema_editor.execute(f"ALTER TABLE {table} VALIDATE CONSTRAINT {schema_editor.quote_name(name)}")
        elif not _is_valid_index(schema_editor, name):
            schema_editor.execute(statement.replace("UNIQUE INDEX", "UNIQUE INDEX CONCURRENTLY", 1))


class TrigramIndex(NamedTuple):
    """An index of PostgreSQL by which `icontains` finds any part of a text; there is none on SQLite.

    It is made after `migrate` and not by a migration, since it needs the extension pg_trgm, which not every
    user may create: without it what is searched is read.
    """

    model: type[Model]
    field: str

    @property
    def name(self) -> str:
        return f"{self.model._meta.db_table}_{self.field}_trigram"

    def make(self) -> None:
        """Do nothing where it exists, or where the extension does not and may not be created."""
        connection = connections[router.db_for_write(self.model)]
        if connection.vendor != "postgresql" or connection.in_atomic_block:
            return
        with suppress(DatabaseError), connection.schema_editor(atomic=False) as editor:
            if not _first(editor, _HAS_TRIGRAMS, "pg_trgm"):
                editor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
            if not _is_valid_index(editor, self.name):
                table, column = map(editor.quote_name, (self.model._meta.db_table, self.field))
                editor.execute(
                    f"CREATE INDEX CONCURRENTLY {editor.quote_name(self.name)} ON {table} "
                    f"USING gin (UPPER({column}::text) gin_trgm_ops)"
                )

    def is_missing(self) -> bool:
        connection = connections[router.db_for_write(self.model)]
        if connection.vendor != "postgresql":
            return False
        with connection.schema_editor(atomic=False) as editor:
            index = _first(editor, _INDEX, self.name)
        return not (index and index[0])  # a killed build leaves one that no query uses


_HAS_TRIGRAMS = "SELECT 1 FROM pg_extension WHERE extname = %s"
_INDEX = (
    "SELECT i.indisvalid FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid "
    "WHERE c.relname = %s AND pg_table_is_visible(c.oid)"
)


def _is_valid_index(schema_editor: Any, name: str) -> bool:
    """Whether the index exists and is complete; an invalid one, left by a killed build, is dropped."""
    index = _first(schema_editor, _INDEX, name)
    if index and not index[0]:
        schema_editor.execute(f"DROP INDEX CONCURRENTLY {schema_editor.quote_name(name)}")
    return bool(index and index[0])


def _exists_in_sqlite(schema_editor: Any, model: Any, added: Any) -> bool:
    """Whether SQLite has an index of its name, or the table a constraint of it. Django's introspection is
    not used: it misreads a check that contains a comma."""
    statement = (
        "SELECT 1 FROM sqlite_master WHERE tbl_name = %s AND "
        "(name = %s OR instr(sql, 'CONSTRAINT \"' || %s || '\"') > 0)"
    )
    return _first(schema_editor, statement, model._meta.db_table, added.name, added.name) is not None


def _first(schema_editor: Any, statement: str, *parameters: str) -> Any:
    """The first row of a statement, or None."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchone()
