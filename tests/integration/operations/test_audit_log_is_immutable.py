"""The record of changes is only ever added to, whoever tries."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from django.core.management.color import no_style
from django.db import DatabaseError, IntegrityError, connection, transaction

from queuemgr.base.errors import RecordStays
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Change, Execution
from queuemgr.operations.controls import By
from queuemgr.scheduling import limit_rows

pytestmark = pytest.mark.django_db


@pytest.fixture
def change() -> Change:
    By("ann", "command", "because").record(
        "pause", "prep.high", {"is": "running"}, {"is": "paused"}
    )
    return Change.objects.get()


@pytest.mark.parametrize(
    "attempt",
    [
        lambda change: change.save(),
        lambda change: change.save(update_fields=["reason"]),
        lambda change: change.delete(),
        lambda change: Change.objects.filter(pk=change.pk).update(actor="nobody"),
        lambda change: Change.objects.filter(pk=change.pk).delete(),
        lambda change: Change.objects.bulk_update([change], ["reason"]),
        lambda change: Change.objects.bulk_create(
            [change], update_conflicts=True, unique_fields=["id"], update_fields=["reason"]
        ),
    ],
    ids=["save", "save one field", "delete", "update", "delete many", "bulk update", "upsert"],
)
def test_a_change_cannot_be_altered_or_deleted_by_our_own_code(
    change: Change, attempt: Callable[[Change], Any]
) -> None:
    with pytest.raises(RecordStays, match="only ever added to"):
        attempt(change)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE queuemgr_change SET actor = 'nobody'",
        "UPDATE queuemgr_change SET undoes_id = NULL",
        "DELETE FROM queuemgr_change",
    ],
)
def test_the_database_refuses_to_alter_or_delete_a_change(change: Change, statement: str) -> None:
    refused = pytest.raises(DatabaseError, match="only ever added to")
    with refused, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert Change.objects.get().actor == "ann"


@pytest.mark.django_db(transaction=True)
def test_emptying_the_tables_is_refused_while_they_hold_a_record(change: Change) -> None:
    """What `manage.py flush` would do."""
    statements = connection.ops.sql_flush(no_style(), ["queuemgr_change"])
    with pytest.raises(DatabaseError, match="only ever added to"), connection.cursor() as cursor:
        cursor.execute(statements[0])
    assert Change.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_the_triggers_can_be_taken_back_and_set_again(change: Change) -> None:
    stay = import_module("queuemgr.migrations.0007_changes_stay")
    with connection.schema_editor() as editor:
        stay.allow(None, editor)
        editor.execute("UPDATE queuemgr_change SET reason = 'altered'")
        stay.refuse(None, editor)
    assert Change.objects.get().reason == "altered"
    with pytest.raises(DatabaseError), connection.cursor() as cursor:
        cursor.execute("DELETE FROM queuemgr_change")


@pytest.mark.parametrize("priority", [-1, 3])
def test_the_database_takes_no_priority_without_a_name(priority: int) -> None:
    limit_rows.sync()
    enqueue("probe", "doc:1")
    with pytest.raises(IntegrityError, match="priority_has_a_name"), transaction.atomic():
        Execution.objects.update(priority=priority)
