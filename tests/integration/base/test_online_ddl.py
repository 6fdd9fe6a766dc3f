"""Operations on large busy tables add once, whatever an earlier run left."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import pytest
from django.core.management import CommandError
from django.db import connection, migrations, models
from django.db.migrations.state import ProjectState
from django.db.models import Q
from django.utils import timezone

from pipeline import queue_search
from pipeline.models import Document
from queuemgr.base import online_ddl, sql
from queuemgr.base.bounded_reading import bounded
from queuemgr.base.online_ddl import AddConstraintNotValid, AddIndexConcurrently, TrigramIndex
from queuemgr.models import AuditEntry, Execution
from tests.migration_steps import StepLoader

pytestmark = pytest.mark.django_db(transaction=True)

NAME = "tried_beside"
INDEX = AddIndexConcurrently("thing", models.Index(fields=["flow"], name=NAME))
UNIQUE = AddConstraintNotValid(
    "thing", models.UniqueConstraint(fields=["flow"], condition=Q(flow="x"), name=NAME)
)
CHECK = AddConstraintNotValid("thing", models.CheckConstraint(condition=~Q(flow="y"), name=NAME))
MAKE = migrations.CreateModel(
    "Thing", [("id", models.BigAutoField(primary_key=True)), ("flow", models.CharField(max_length=9))]
)


@pytest.fixture
def before() -> Iterator[ProjectState]:
    """The state with the one table, and its removal."""
    none, state = ProjectState(), ProjectState()
    MAKE.state_forwards("queuemgr", state)
    with connection.schema_editor() as editor:
        MAKE.database_forwards("queuemgr", editor, none, state)
    yield state
    with connection.schema_editor() as editor:
        editor.execute("DROP TABLE queuemgr_thing")


@pytest.mark.parametrize("operation", [INDEX, UNIQUE, CHECK])
def test_an_operation_run_again_adds_nothing_twice(operation, before: ProjectState) -> None:
    _run(operation, before)
    _run(operation, before)
    with connection.cursor() as cursor:
        assert NAME in connection.introspection.get_constraints(cursor, "queuemgr_thing")


def test_a_check_with_a_comma_on_the_table_does_not_matter(before: ProjectState) -> None:
    """Django's introspection of SQLite fails at `IN (0, 1, 2)`; our own tables have none."""
    numbers = models.CheckConstraint(condition=Q(id__in=[0, 1, 2]), name="small")
    _run(AddConstraintNotValid("thing", numbers), before)
    _run(INDEX, before)
    _run(INDEX, before)


def test_django_reads_every_table_of_ours() -> None:
    tables = connection.introspection.django_table_names(only_existing=True)
    assert "queuemgr_execution" in tables
    with connection.cursor() as cursor:
        for table in tables:
            assert connection.introspection.get_constraints(cursor, table)


@pytest.mark.only_on("postgres", why="SQLite leaves no half an index")
@pytest.mark.parametrize("operation", [INDEX, UNIQUE])
def test_an_invalid_index_is_rebuilt(operation, before: ProjectState) -> None:
    _run(operation, before)
    sql.run("UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", [NAME])
    _run(operation, before)
    found = "SELECT indisvalid FROM pg_index WHERE indexrelid = %s::regclass"
    assert sql.value(found, [NAME]) is True


def _run(operation, before: ProjectState) -> None:
    after = before.clone()
    operation.state_forwards("queuemgr", after)
    with connection.schema_editor(atomic=False) as editor:
        operation.database_forwards("queuemgr", editor, before, after)


def test_a_process_of_the_previous_release_works_with_the_new_tables(transactional_db: None) -> None:
    """The columns it writes do not include those added since."""
    state = StepLoader(connection).project_state([("queuemgr", "0001_first_release")])
    old = state.apps
    execution = old.get_model("queuemgr", "Execution")
    execution.objects.create(
        flow="probe", key="old", phase="prep", step="probe", state="done", finished_at=timezone.now()
    )
    change = old.get_model("queuemgr", "AuditEntry")
    change.objects.create(actor="ann", source="command", action="retry", target="probe/old")
    assert Execution.objects.get().error_fingerprint == ""
    assert AuditEntry.objects.get().affected == 1


def test_a_database_of_an_earlier_version_is_refused_by_name() -> None:
    first = import_module("queuemgr.migrations.0001_first_release")
    with (
        connection.schema_editor() as editor,
        pytest.raises(CommandError, match="made before the first release"),
    ):
        first.refuse_an_earlier_database(None, editor)


@pytest.mark.only_on("postgres", why="SQLite has no such index")
def test_a_part_of_a_title_is_found_by_its_trigrams_where_they_may_be_made() -> None:
    title = queue_search.INDEXES[0]
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX {title.name}")
    assert title.is_missing()
    for _ in range(2):
        title.make()
    assert not title.is_missing()
    with bounded(60):
        parts = Document.objects.filter(title__icontains="bounded").order_by().explain()
    assert title.name in parts


@pytest.mark.only_on("postgres", why="SQLite has no such index")
def test_an_index_that_a_killed_build_left_is_missing_and_made_anew() -> None:
    title = queue_search.INDEXES[0]
    with connection.cursor() as cursor:
        cursor.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", [title.name])
    assert title.is_missing()
    title.make()
    assert not title.is_missing()


@pytest.mark.only_on("postgres", why="SQLite has no such index")
def test_a_user_who_may_not_create_the_extension_is_let_be(monkeypatch: pytest.MonkeyPatch) -> None:
    title = TrigramIndex(Document, "title")
    monkeypatch.setattr(online_ddl, "_HAS_TRIGRAMS", "SELECT 1 FROM no_such_table WHERE extname = %s")
    title.make()
    assert not title.is_missing()
