"""The audit log is append-only, whoever tries to change it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from django.core.management.color import no_style
from django.db import DatabaseError, IntegrityError, connection, transaction

from queuemgr.base.errors import AuditLogIsImmutable
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import AuditEntry, Execution
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows

pytestmark = pytest.mark.django_db


@pytest.fixture
def change() -> AuditEntry:
    Actor("ann", "command", "because").record("pause", "prep.high", {"is": "running"}, {"is": "paused"})
    return AuditEntry.objects.get()


@pytest.mark.parametrize(
    "attempt",
    [
        lambda change: change.save(),
        lambda change: change.save(update_fields=["reason"]),
        lambda change: change.delete(),
        lambda change: AuditEntry.objects.filter(pk=change.pk).update(actor="nobody"),
        lambda change: AuditEntry.objects.filter(pk=change.pk).delete(),
        lambda change: AuditEntry.objects.bulk_update([change], ["reason"]),
        lambda change: AuditEntry.objects.bulk_create(
            [change], update_conflicts=True, unique_fields=["id"], update_fields=["reason"]
        ),
    ],
    ids=["save", "save one field", "delete", "update", "delete many", "bulk update", "upsert"],
)
def test_a_change_cannot_be_altered_or_deleted_by_our_own_code(
    change: AuditEntry, attempt: Callable[[AuditEntry], Any]
) -> None:
    with pytest.raises(AuditLogIsImmutable, match="append-only"):
        attempt(change)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE queuemgr_change SET actor = 'nobody'",
        "UPDATE queuemgr_change SET undoes_id = NULL",
        "DELETE FROM queuemgr_change",
    ],
)
def test_the_database_refuses_to_alter_or_delete_a_change(change: AuditEntry, statement: str) -> None:
    refused = pytest.raises(DatabaseError, match="append-only")
    with refused, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert AuditEntry.objects.get().actor == "ann"


@pytest.mark.django_db(transaction=True)
def test_emptying_the_tables_is_refused_while_they_hold_a_record(change: AuditEntry) -> None:
    """What `manage.py flush` would do."""
    statements = connection.ops.sql_flush(no_style(), ["queuemgr_change"])
    with pytest.raises(DatabaseError, match="append-only"), connection.cursor() as cursor:
        cursor.execute(statements[0])
    assert AuditEntry.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_the_triggers_can_be_taken_back_and_set_again(change: AuditEntry) -> None:
    triggers = import_module("queuemgr.migrations.0001_first_release")
    with connection.schema_editor() as editor:
        triggers.make_audit_log_mutable(None, editor)
        editor.execute("UPDATE queuemgr_change SET reason = 'altered'")
        triggers.make_audit_log_immutable(None, editor)
    assert AuditEntry.objects.get().reason == "altered"
    with pytest.raises(DatabaseError), connection.cursor() as cursor:
        cursor.execute("DELETE FROM queuemgr_change")


@pytest.mark.parametrize("priority", [-1, 3])
def test_the_database_takes_no_priority_without_a_name(priority: int) -> None:
    limit_rows.sync()
    enqueue("probe", "doc:1")
    with pytest.raises(IntegrityError, match="priority_has_a_name"), transaction.atomic():
        Execution.objects.update(priority=priority)
