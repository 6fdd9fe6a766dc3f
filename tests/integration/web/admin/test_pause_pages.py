"""Pausing and resuming queues and limits on their pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from queuemgr.flows.flow import NewExecution
from queuemgr.lifecycle.enqueue import enqueue, enqueue_many
from queuemgr.models import AuditEntry, Limit, Queue
from queuemgr.models import Worker as WorkerRow
from queuemgr.scheduling import limit_rows
from tests.integration.web.admin.admin_pages import act, page, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _queues() -> None:
    limit_rows.sync()


def test_pausing_asks_for_a_reason_first(operator: Client) -> None:
    queue = Queue.objects.get(name="prep.normal")
    assert 'name="reason"' in text_of(act(operator, "queue", "pause", queue))
    assert "This field is required" in text_of(act(operator, "queue", "pause", queue, reason=""))
    queue.refresh_from_db()
    assert queue.paused_at is None


def test_the_reason_of_a_pause_is_what_its_work_waits_for(operator: Client) -> None:
    enqueue("probe", "doc:1")
    queue = Queue.objects.get(name="prep.normal")
    act(operator, "queue", "pause", queue, reason="the disk is full")
    assert "paused by sam: the disk is full" in text_of(operator.get(page("execution")))
    assert "paused by sam: the disk is full" in text_of(operator.get(page("queue")))
    change = AuditEntry.objects.get()
    assert (change.action, change.target, change.reason) == (
        "pause", "prep.normal", "the disk is full",
    )  # fmt: skip


def test_a_pause_may_end_by_itself_but_not_in_the_past(operator: Client) -> None:
    queue = Queue.objects.get(name="prep.normal")
    past = act(operator, "queue", "pause", queue, reason="tea", until="2020-01-01T10:00")
    assert "This time has passed" in text_of(past)
    far = act(operator, "queue", "pause", queue, reason="tea", until="2999-01-01T10:00")
    assert "more than ten years ahead" in text_of(far)
    year = timezone.now().year + 1
    act(operator, "queue", "pause", queue, reason="tea", until=f"{year}-01-01T10:00")
    queue.refresh_from_db()
    assert queue.paused_until is not None
    assert f"until {year}-01-01 10:00:00 UTC" in text_of(operator.get(page("queue")))


@pytest.mark.parametrize(("model", "name"), [("queue", "prep.normal"), ("limit", "host:*")])
def test_resume_undoes_a_pause(operator: Client, model: str, name: str) -> None:
    row = {"queue": Queue, "limit": Limit}[model].objects.get(name=name)
    act(operator, model, "pause", row, reason="tea")
    assert f"Resumed: {name}" in text_of(act(operator, model, "resume", row))
    row.refresh_from_db()
    assert row.paused_at is None
    assert "None of these was paused" in text_of(act(operator, model, "resume", row))


def test_queues_show_how_much_waits_and_how_much_is_leased(
    operator: Client, make_worker: Callable[..., WorkerRow], sent: list[Any]
) -> None:
    make_worker(slots=2)
    enqueue_many("probe", [NewExecution(f"doc:{n}") for n in range(5)])
    from queuemgr.lifecycle.dispatch import dispatch

    dispatch()
    rows = {row.name: row for row in operator.get(page("queue")).context["cl"].result_list}
    assert (rows["prep.normal"].waiting, rows["prep.normal"].held) == ("3 / no cap", "2")
    assert (rows["prep.high"].waiting, rows["prep.high"].held) == ("0 / no cap", "0")
