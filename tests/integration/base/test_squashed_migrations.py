"""A new database gets the tables of all first migrations at once: the ones that each of them would make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.migrations.state import ProjectState

from tests.migration_steps import StepLoader, migrate_to, newest

OF_POSTGRESQL = (
    """SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, column_default
       FROM information_schema.columns WHERE table_name LIKE 'queuemgr%'""",
    """SELECT conname, pg_get_constraintdef(oid), convalidated FROM pg_constraint
       WHERE conrelid::regclass::text LIKE 'queuemgr%' AND contype <> 'n'""",
    "SELECT indexname, indexdef FROM pg_indexes WHERE tablename LIKE 'queuemgr%'",
    "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
)
OF_SQLITE = ("SELECT sql FROM sqlite_master WHERE tbl_name LIKE 'queuemgr%' AND sql IS NOT NULL",)
WIDTH = re.compile(r"varchar\(\d+\)")
"""SQLite bounds no text: a longer one is no change there."""


def _models(state: ProjectState) -> dict[str, Any]:
    return {
        name: (
            {field: instance.deconstruct()[1:] for field, instance in model.fields.items()},
            {option: sorted(map(str, value)) if isinstance(value, list) else value
             for option, value in model.options.items() if value},
        )
        for (app, name), model in state.models.items() if app == "queuemgr"
    }  # fmt: skip


def test_models_are_the_same_in_one_step_and_in_all() -> None:
    steps, once = StepLoader(None), MigrationLoader(None)
    assert _models(steps.project_state()) == _models(once.project_state())
    assert len(once.graph.nodes) < len(steps.graph.nodes) - 30


def _parts(statement: str) -> list[str]:
    """What a CREATE TABLE of SQLite lists, in any order."""
    head, _, inner = WIDTH.sub("varchar", " ".join(statement.split())).partition("(")
    parts, depth = [""], 0
    for letter in inner:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [head, *sorted(part.strip(" )") for part in parts)]


def _tables() -> list[str]:
    queries = OF_POSTGRESQL if connection.vendor == "postgresql" else OF_SQLITE
    with connection.cursor() as cursor:
        found = [row for query in queries for row in _rows(cursor, query)]
    return sorted(str(_parts(row[0]) if connection.vendor == "sqlite" else row) for row in found)


def _rows(cursor: Any, query: str) -> list[Any]:
    cursor.execute(query)
    return list(cursor.fetchall())


@pytest.fixture
def restored() -> Iterator[None]:
    yield
    migrate_to(*newest(), *StepLoader(connection).graph.leaf_nodes("pipeline"))


@pytest.mark.slow_proof
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("restored")
def test_tables_are_the_same_in_one_step_and_in_all() -> None:
    at_once = _tables()
    assert len(at_once) > 50
    migrate_to(("queuemgr", None))
    assert _tables() == []
    migrate_to(*newest())
    assert _tables() == at_once


@pytest.mark.django_db
def test_a_new_database_is_known_to_have_each_of_the_steps() -> None:
    applied = {name for app, name in MigrationRecorder(connection).applied_migrations() if app == "queuemgr"}
    assert {name for app, name in StepLoader(connection).graph.nodes if app == "queuemgr"} <= applied
