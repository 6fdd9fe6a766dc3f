"""An undo asks for what doing the same by hand asks for, and no less: kind by kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from queuemgr.flows.flow import HIGH
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import AuditEntry, Execution
from queuemgr.operations import bulk, controls, executions, failure_retention, schedules, workers
from queuemgr.operations.controls import Actor
from queuemgr.operations.undo import KINDS, undo
from queuemgr.scheduling import limit_rows
from tests.integration.operations.bulk_fixtures import carried_out

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root", "sent")]
ANN = Actor("ann", "command", "for a test")


def _limit_of_a_key() -> None:
    controls.edit_limit("host:x", ANN, max_running=9)


def _removed() -> None:
    _limit_of_a_key()
    controls.remove_limit("host:x", ANN)


def _paused_schedule() -> None:
    schedules.create("nightly", "probe", "every 1d", ANN, payload={"tenant": "a"})
    schedules.pause("nightly", ANN)


def _edited_schedule(**values: Any) -> None:
    schedules.create("nightly", "probe", "every 1d", ANN, payload={"tenant": "a"})
    schedules.edit("nightly", ANN, **values)


def _raised() -> None:
    enqueue("probe", "a")
    executions.set_priority(Execution.objects.all(), HIGH, ANN)


def _bulk() -> None:
    enqueue("probe", "a")
    asked = bulk.BulkRequest("priority", {"flow": "probe"}, {"priority": "high"})
    carried_out(bulk.begin(asked, ANN))


Make = Callable[[], Any]
ASKED: dict[str, tuple[Make, set[str]]] = {
    "edit limit": (_limit_of_a_key, {"change_limit"}),
    "remove limit": (_removed, {"change_limit"}),
    "restore limit": (lambda: (_removed(), undo(AuditEntry.objects.latest("pk"), ANN)), {"change_limit"}),
    "pause": (lambda: controls.pause("prep.high", ANN), {"pause_queue"}),
    "resume": (lambda: (controls.pause("host:x", ANN), controls.resume("host:x", ANN)), {"pause_limit"}),
    "cancel": (
        lambda: (enqueue("probe", "cancelled"), executions.cancel(Execution.objects.all(), ANN)),
        {"cancel_execution"},
    ),
    "edit queue": (lambda: controls.edit_queue("prep.high", ANN, max_pending=7), {"change_queue"}),
    "edit schedule": (lambda: _edited_schedule(jitter=9), {"change_schedule"}),
    schedules.EDIT_PAYLOAD: (
        lambda: _edited_schedule(payload={"tenant": "b"}),
        {"change_schedule", "edit_payload", "view_payload"},
    ),
    "pause schedule": (_paused_schedule, {"pause_schedule"}),
    "resume schedule": (lambda: (_paused_schedule(), schedules.resume("nightly", ANN)), {"pause_schedule"}),
    failure_retention.KEEP: (lambda: failure_retention.keep("probe", 9, ANN), {"change_flowretention"}),
    workers.DRAIN: (lambda: workers.drain("w", ANN), {"drain_worker"}),
    workers.RESUME: (lambda: (workers.drain("w", ANN), workers.resume("w", ANN)), {"drain_worker"}),
    "edit retry policy": (
        lambda: controls.edit_policy("network", "prep", ANN, max_attempts=9),
        {"change_retrypolicy", "delete_retrypolicy"},
    ),
    "delete retry policy": (
        lambda: (
            controls.edit_policy("network", "prep", ANN, max_attempts=9),
            controls.delete_policy("network", "prep", ANN),
        ),
        {"add_retrypolicy"},
    ),
    "start bulk action": (_bulk, {"prioritise_execution"}),
    "set priority": (_raised, {"prioritise_execution"}),
}
"""How an entry of each kind is made, and what whoever undoes it must hold beside `undo_auditentry`."""


def test_each_kind_that_can_be_undone_has_its_rights_here() -> None:
    assert ASKED.keys() == KINDS.keys()


@pytest.mark.parametrize("kind", ASKED)
def test_an_undo_asks_for_each_right_that_the_change_itself_asks_for(kind: str, make_worker: Any) -> None:
    limit_rows.sync()
    make_worker(name="w")
    make, rights = ASKED[kind]
    make()
    entry = AuditEntry.objects.filter(action=kind).latest("pk")
    url = reverse("admin:queuemgr_auditentry_undo", args=[entry.pk])
    every = Permission.objects.filter(content_type__app_label="queuemgr")
    for lacking in sorted(rights | {"undo_auditentry"}):
        client = _client(f"without-{lacking}", every.exclude(codename=lacking))
        assert client.post(url).status_code in (403, 404), lacking
    assert not AuditEntry.objects.filter(undoes=entry).exists()
    held = {*rights, "undo_auditentry", "view_auditentry"}
    assert _client("just-enough", every.filter(codename__in=held)).post(url).status_code == 302
    assert AuditEntry.objects.filter(undoes=entry).exists()


def _client(name: str, held: Any) -> Client:
    user = User.objects.create_user(name, is_staff=True)
    user.user_permissions.set(held)
    client = Client()
    client.force_login(user)
    return client
