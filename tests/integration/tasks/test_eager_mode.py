"""Celery's eager mode is honoured: calls run at once, and nothing is stored."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from celery import current_app, shared_task
from django.contrib.auth.models import Group
from django.db import connection

from queuemgr import (
    BadInput,
    Done,
    QueuedTask,
    Skipped,
    StepFailed,
    TaskFailed,
    TaskNotRun,
    current_work,
    queued,
)
from queuemgr.testing import call_step

pytestmark = pytest.mark.usefixtures("declaring")


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setitem(current_app.conf, "task_always_eager", True)
    yield current_app.conf


def test_a_call_runs_at_once_without_a_database() -> None:
    seen: list[Any] = []

    @queued(name="shop.send", limits=["host:{host}"], cost=2)
    def send(host: str, when: dt.date) -> dt.date:
        seen.append((host, when, current_work().key))
        return when

    handle = send.enqueue("a", dt.date(2026, 1, 1))
    assert (handle.status, handle.ready(), handle.successful()) == ("done", True, True)
    assert handle.result(timeout=1) == asyncio.run(handle.aresult()) == dt.date(2026, 1, 1)
    assert seen == [("a", dt.date(2026, 1, 1), handle.key)]
    assert [h.status for h in send.enqueue_many([{"host": "b", "when": "2026-01-02"}])] == ["done"]


@pytest.mark.django_db
def test_the_transaction_around_a_call_is_left_as_it_was() -> None:
    """Such as that of a TestCase; `call_step` does the same."""

    def join(name: str) -> int:
        with current_work().database():
            return int(Group.objects.create(name=name).pk)

    task: Any = shared_task(base=QueuedTask, name="shop.join")(join)
    Group.objects.create(name="before")
    assert task.delay("eager").get() == Group.objects.get(name="eager").pk
    assert call_step(task, {"name": "step"}) == Done(result=Group.objects.get(name="step").pk)
    assert connection.in_atomic_block
    assert Group.objects.filter(name="before").exists()


def test_arguments_and_results_go_through_json() -> None:
    def echo(value: Any) -> Any:
        return value

    task: Any = shared_task(base=QueuedTask, name="shop.echo")(echo)
    assert task.delay((1, 2)).get() == [1, 2]
    with pytest.raises(BadInput, match="cannot be stored as JSON"):
        task.delay(object())


def test_an_error_is_in_the_handle_or_raised_as_celery_is_configured(eager: Any, monkeypatch: Any) -> None:
    @queued(name="shop.fails")
    def send() -> None:
        raise KeyError("host")

    handle = send.enqueue()
    assert handle.status == "failed"
    with pytest.raises(TaskFailed, match="KeyError: 'host'"):
        handle.result()
    monkeypatch.setitem(eager, "task_eager_propagates", True)
    with pytest.raises(KeyError, match="host"):
        send.enqueue()


def test_retries_follow_at_once() -> None:
    seen: list[int] = []

    def work(self: Any) -> int:
        seen.append(self.request.retries)
        if len(seen) < 3:
            raise self.retry(countdown=3600, max_retries=5)
        return len(seen)

    task: Any = shared_task(base=QueuedTask, name="shop.retries", bind=True)(work)
    assert task.delay().get() == 3
    assert seen == [0, 1, 2]


def test_outcomes_mean_what_they_do_otherwise() -> None:
    @queued(name="shop.outcomes")
    def send(kind: str) -> Any:
        if kind == "skipped":
            return Skipped("not wanted")
        raise StepFailed("not_found", "no such host")

    skipped, failed = send.enqueue("skipped"), send.enqueue("failed")
    assert (skipped.status, failed.status) == ("skipped", "failed")
    with pytest.raises(TaskNotRun, match="not wanted"):
        skipped.result()
    with pytest.raises(TaskFailed, match="not_found"):
        failed.result()
