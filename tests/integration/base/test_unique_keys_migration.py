"""The migrations that add unique keys, over a table with rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection

from queuemgr.flows.unique import Unique
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Execution
from tests import migration_steps
from tests.migration_steps import migrate_to

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sent")]
BEFORE, COLUMNS = ("queuemgr", "0019_batch_callbacks"), ("queuemgr", "0020_unique_keys")


@pytest.fixture
def newest() -> Iterator[list[tuple[str, str]]]:
    """The newest migrations, which are there again after the test."""
    leaves = migration_steps.newest()
    yield leaves
    migrate_to(*leaves)


def test_rows_from_before_stay_and_hold_no_unique_key(newest: list[tuple[str, str]]) -> None:
    enqueue("probe", "from before", {"host": "a"})
    before = Execution.objects.defer("unique_key", "unique_states", "unique_until").values(
        "id", "key", "state", "payload", "run_after"
    )
    row = before.get()
    migrate_to(BEFORE)
    assert before.get() == row
    migrate_to(*newest)
    assert before.get(key="from before") == row
    assert not Execution.objects.exclude(unique_key=None).exists()
    unique = Unique(keys=["host"])
    assert [enqueue("probe", key, {"host": "a"}, unique=unique) for key in ("first", "second")] == [
        True,
        False,
    ]


@pytest.mark.only_on("postgres", why="SQLite builds an index in a transaction")
def test_an_index_whose_build_was_killed_is_built_again(newest: list[tuple[str, str]]) -> None:
    migrate_to(COLUMNS)
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE UNIQUE INDEX one_holder_per_unique_key ON queuemgr_execution (flow) WHERE id = 0"
        )
        cursor.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'one_holder_per_unique_key'::regclass"
        )
    migrate_to(*newest)
    unique = Unique(keys=["host"])
    assert [enqueue("probe", key, {"host": "a"}, unique=unique) for key in ("first", "second")] == [
        True,
        False,
    ]
