"""`GET /task?priority=low|high` and `GET /task/{id}`."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from queuemgr.flows.outcomes import Failed
from queuemgr.models import Execution
from queuemgr.operations import controls
from queuemgr.scheduling import limit_rows
from tests.integration.web.api.api_client import ANN, problem

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("static_root")]

SCHEDULED = ["task_id", "status", "priority", "worker", "scheduled_at"]
THEN = [
    "scheduled_by", "processed_by", "started_at", "completed_at", "latency_ms", "same_worker",
]  # fmt: skip


@pytest.fixture
def on(configure: Callable[..., None], sent: list[Any]) -> None:
    configure(task_routes="true")


def get(path: str) -> Any:
    return Client().get(path)


def test_off_unless_a_setting_says_otherwise(sent: list[Any]) -> None:
    """It changes state on GET and asks for no token."""
    problem(get("/task?priority=low"), "not-found")
    problem(get("/task/00000000-0000-0000-0000-000000000000"), "not-found")
    assert not Execution.objects.exists()


def test_a_task_goes_from_queued_over_processing_to_completed(on: None, played: Any) -> None:
    worker = played(slots=1)
    made = get("/task?priority=high").json()
    assert list(made) == SCHEDULED
    assert (made["status"], made["priority"], made["worker"]) == (
        "queued", "high", socket.gethostname(),
    )  # fmt: skip
    path = f"/task/{made['task_id']}"
    assert get(path).json()["status"] == "queued"
    (grant,) = worker.begin_all()
    running = get(path).json()
    assert (running["status"], running["processed_by"], running["completed_at"]) == (
        "processing", "w@test", None,
    )  # fmt: skip
    worker.end(grant)
    done = get(path).json()
    assert list(done) == [*SCHEDULED, *THEN]
    assert (done["status"], done["worker"], done["scheduled_by"]) == (
        "completed", "w@test", socket.gethostname(),
    )  # fmt: skip
    assert done["scheduled_at"] <= done["started_at"] <= done["completed_at"]
    assert done["latency_ms"] >= 0
    assert done["same_worker"] is False


def test_a_task_that_fails_says_failed(on: None, played: Any) -> None:
    worker = played(slots=1)
    path = f"/task/{get('/task?priority=low').json()['task_id']}"
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("not_found", "no"))
    assert get(path).json()["status"] == "failed"


def test_low_tasks_leave_the_reserved_slot_to_high_ones(
    on: None, played: Any, configure: Callable[..., None]
) -> None:
    """Line by line: three slots, one reserved."""
    configure(task_routes="true", max_workers=3, high_priority_reserved=1)
    worker = played(slots=3)
    low = [get("/task?priority=low").json()["task_id"] for _ in range(3)]
    worker.begin_all()
    assert [get(f"/task/{task}").json()["status"] for task in low] == [
        "processing", "processing", "queued",
    ]  # fmt: skip
    high = get("/task?priority=high").json()["task_id"]
    worker.begin_all()
    assert get(f"/task/{high}").json()["status"] == "processing"


@pytest.mark.parametrize("query", ["priority=urgent", "priority=normal", "priority=%00"])
def test_another_priority_is_refused(on: None, query: str) -> None:
    problem(get(f"/task?{query}"), "invalid")


@pytest.mark.parametrize(
    ("query", "seconds"), [("", 10), ("&seconds=0", 0), ("&seconds=2.5", 2.5), ("&seconds=3600", 3600)]
)
def test_a_task_takes_ten_seconds_unless_the_request_says_otherwise(
    on: None, query: str, seconds: float
) -> None:
    """A load test of tasks that take no time would show nothing of priorities."""
    assert get(f"/task?priority=low{query}").status_code == 200
    assert Execution.objects.get().payload["seconds"] == seconds


@pytest.mark.parametrize(
    "seconds",
    ["", "-1", "3601", "1e3", "nan", "inf", "ten", "0x10", "1_0", "%00", "%D9%A1", "1,5", "+1", "9" * 400],
)
def test_seconds_that_are_no_such_number_are_refused(on: None, seconds: str) -> None:
    problem(get(f"/task?priority=low&seconds={seconds}"), "invalid")
    assert not Execution.objects.exists()


def test_a_full_queue_is_429(on: None) -> None:
    limit_rows.sync()
    controls.edit_queue("prep.low", ANN, max_pending=1)
    assert get("/task?priority=low").status_code == 200
    assert problem(get("/task?priority=low"), "queue-full")["cap"] == 1


def test_no_such_task_is_404(on: None) -> None:
    problem(get("/task/00000000-0000-0000-0000-000000000000"), "not-found")
    assert get("/task/nothing").status_code == 404
    assert Client().post("/task").status_code == 405
