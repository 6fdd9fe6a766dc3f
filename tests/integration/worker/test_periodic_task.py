"""Nothing a periodic job meets reaches the pool: with `-P solo` that is the main loop of its worker."""

from __future__ import annotations

from typing import Any

import pytest
from celery.app.trace import build_tracer
from celery.backends.base import BaseBackend
from django.db import InterfaceError, OperationalError

from project.celery import app
from queuemgr.worker import beat, housekeeping

pytestmark = pytest.mark.django_db(transaction=True)

TASKS = (beat.tick, beat.backfill, beat.prune, beat.roll_up, beat.work_on_bulk_actions)
AWAY = (
    OperationalError("the server closed the connection unexpectedly\n\tThis probably means"),
    InterfaceError("the connection is closed"),
)


class BrokenBackend(BaseBackend):
    """The result backend while its server is away."""

    def store_result(self, *args: Any, **kwargs: Any) -> None:
        raise OperationalError("no result is stored")


def run_in_pool(task: Any) -> Any:
    """Run a task as the pool does, with a message's request."""
    task.__class__.backend = BrokenBackend(app)
    try:
        trace = build_tracer(task.name, task, app=app, propagate=False)
        return trace("id-1", (), {}, {"id": "id-1", "is_eager": False})
    finally:
        del task.__class__.backend


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
@pytest.mark.parametrize("error", AWAY, ids=lambda error: type(error).__name__)
def test_a_job_whose_database_is_away_is_a_line_in_the_log(
    task: Any, error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*args: Any, **kwargs: Any) -> None:
        raise error

    monkeypatch.setattr(housekeeping, "claim", away)
    run_in_pool(task)
    first, *others = caplog.messages
    assert first.startswith(f"{task.name}: the database does not answer")
    assert all("could not be stored" in line for line in others)
    assert not any("\n" in line or "Traceback" in line for line in caplog.text.splitlines())


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_job_whose_result_cannot_be_stored_has_run(
    task: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(housekeeping, "claim", lambda *args, **kwargs: False)
    run_in_pool(task)
    assert [line for line in caplog.messages if "could not be stored" in line]


def test_a_job_that_fails_though_its_database_answers_fails_its_task_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(housekeeping, "claim", broken)
    run_in_pool(beat.tick)
    assert "raised unexpected: ZeroDivisionError" in caplog.text
