"""Every page opens; nothing is changed by reading, nor by who may only look."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import AuditEntry, Execution, Queue, State, WorkerDrain
from queuemgr.models import Worker as WorkerRow
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows
from tests.integration.web.admin.admin_pages import a_failed, act, act_on_all, page, text_of
from tests.usage_rows import spend_requests

pytestmark = pytest.mark.django_db

NEVER_EDITED = ("execution", "attempt", "auditentry", "allowanceusage", "worker")
ALL_MODELS = (*NEVER_EDITED, "queue", "limit", "retrypolicy")


@pytest.fixture(autouse=True)
def _queues() -> None:
    limit_rows.sync()


@pytest.fixture
def a_row_of_each(make_worker: Callable[..., WorkerRow]) -> None:
    """A row of every model that has a page."""
    make_worker()
    a_failed("doc:1")
    spend_requests("phase:prep", 3)
    controls.pause("everything", Actor("sam", "command", "night"))


@pytest.mark.parametrize("model", ALL_MODELS)
def test_every_list_and_detail_page_opens(operator: Client, model: str, a_row_of_each: None) -> None:
    rows = operator.get(page(model)).context["cl"].result_list
    text_of(operator.get(page(model, rows[0].pk, view="change")))


@pytest.mark.parametrize("model", NEVER_EDITED)
def test_not_even_a_superuser_adds_or_edits_what_is_read_only(
    superuser: Client, model: str, a_row_of_each: None
) -> None:
    row = superuser.get(page(model)).context["cl"].result_list[0]
    assert superuser.get(page(model, view="add")).status_code == 403
    assert superuser.post(page(model, row.pk, view="change"), {}).status_code == 403


@pytest.mark.parametrize("model", ALL_MODELS)
def test_not_even_a_superuser_deletes(superuser: Client, model: str, a_row_of_each: None) -> None:
    row = superuser.get(page(model)).context["cl"].result_list[0]
    assert superuser.post(page(model, row.pk, view="delete"), {"post": "yes"}).status_code == 403
    act(superuser, model, "delete_selected", row, post="yes")
    assert type(row).objects.filter(pk=row.pk).exists()


@pytest.mark.parametrize("action", ["retry", "cancel", "raise_priority", "lower_priority"])
def test_a_user_with_view_permissions_neither_sees_nor_runs_actions(
    staff: Callable[..., Client], action: str
) -> None:
    viewer = staff("view_execution")
    before = a_failed("doc:1")
    enqueue("probe", "doc:2")
    assert 'name="action"' not in text_of(viewer.get(page("execution")))
    act(viewer, "execution", action, *Execution.objects.all())
    act_on_all(viewer, action)
    after = Execution.objects.get(pk=before.pk)
    assert (after.state, after.priority) == (before.state, before.priority)
    assert Execution.objects.get(key="doc:2").state == State.WAITING
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("model", ["queue", "limit"])
def test_a_user_with_view_permissions_can_neither_pause_nor_edit(
    staff: Callable[..., Client], model: str
) -> None:
    viewer = staff(f"view_{model}")
    row = viewer.get(page(model)).context["cl"].result_list[0]
    assert 'name="action"' not in text_of(viewer.get(page(model)))
    act(viewer, model, "pause", row, reason="because")
    assert viewer.post(page(model, row.pk, view="change"), {"max_running": 1}).status_code == 403
    assert viewer.get(page(model, view="add")).status_code == 403
    row.refresh_from_db()
    assert row.paused_at is None
    assert not AuditEntry.objects.exists()


def test_reading_never_changes_anything(operator: Client) -> None:
    failed = a_failed("doc:1")
    queue = Queue.objects.get(name="prep.high")
    for model, row, action in (("execution", failed, "retry"), ("queue", queue, "pause")):
        operator.get(page(model), {"action": action, "_selected_action": row.pk, "reason": "x"})
    failed.refresh_from_db()
    queue.refresh_from_db()
    assert (failed.state, queue.paused_at) == (State.FAILED, None)
    assert not AuditEntry.objects.exists()


def test_workers_are_live_draining_or_gone(operator: Client, make_worker: Callable[..., WorkerRow]) -> None:
    now = timezone.now()
    make_worker(name="live")
    WorkerRow.objects.filter(pk=make_worker(name="draining").pk).update(draining_at=now)
    WorkerRow.objects.filter(pk=make_worker(name="gone").pk).update(seen_at=now - timedelta(hours=1))
    rows = operator.get(page("worker")).context["cl"].result_list
    assert {row.name: row.condition for row in rows} == {
        "live": "live", "draining": "draining", "gone": "gone",
    }  # fmt: skip


def test_workers_are_drained_with_a_reason_and_resumed_from_their_list(
    operator: Client, make_worker: Callable[..., WorkerRow], sent: list[Any]
) -> None:
    row = make_worker(name="steps@a")
    asked = act(operator, "worker", "drain", row)
    assert "They stay up and finish what runs" in text_of(asked)
    assert not WorkerDrain.objects.exists()
    act(operator, "worker", "drain", row, reason="new disk")
    listed = text_of(operator.get(page("worker")))
    assert "drained by sam since" in listed
    assert "new disk" in listed
    assert "new disk" in text_of(operator.get(reverse("admin:index")))
    act(operator, "worker", "resume", row)
    assert not WorkerDrain.objects.exists()
    assert [entry.action for entry in AuditEntry.objects.order_by("pk")] == ["drain worker", "resume worker"]
