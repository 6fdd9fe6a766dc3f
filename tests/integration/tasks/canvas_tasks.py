"""Tasks that tests of Celery's canvas put into chains and groups, and a run of all that is due."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from celery import shared_task
from celery.result import AsyncResult
from django.dispatch import Signal

from queuemgr import QueuedTask
from queuemgr.lifecycle import canvas_calls
from queuemgr.models import CanvasCall

Perform = Callable[..., int]


def declare(name: str, function: Callable[..., Any], **options: Any) -> Any:
    task: Any = shared_task(base=QueuedTask, name=f"shop.{name}", **options)(function)
    assert task.name == f"shop.{name}"
    return task


def refuse_seven(number: int) -> int:
    if number == 7:
        raise ValueError("seven")
    return number + 1


def typed_plus_one(number: int) -> int:
    return number + 1


def declare_flaky() -> tuple[list[int], Any]:
    """A task that fails as long as the list is empty."""
    works: list[int] = []

    def flaky(number: int) -> int:
        return number // len(works)

    return works, declare("flaky", flaky)


def sum_of(numbers: Any) -> Any:
    return sum(numbers)


def same(task_id: Any) -> Any:
    return task_id


def text_of(number: Any) -> Any:
    return "text" * number


def twice(host: Any) -> Any:
    return host * 2


@pytest.fixture
def plus_one() -> Any:
    return declare("plus_one", refuse_seven)


@pytest.fixture
def total() -> Any:
    return declare("total", sum_of)


@pytest.fixture
def run(perform_all: Perform, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Run all that is due, and tell Celery as the tick does, but in this thread, until nothing is left."""

    def send(signal: Signal, events: Callable[[], Any]) -> None:
        for event in events():
            signal.send(sender=None, event=event)

    monkeypatch.setattr(canvas_calls, "send_after_commit", send)

    def until_nothing_is_left() -> None:
        while (
            perform_all() or CanvasCall.objects.filter(notified_at=None).exclude(claimed_until=None).exists()
        ):
            canvas_calls.look()

    return until_nothing_is_left


def result_of(asked: Any) -> Any:
    """As `get()`, which would wait for ever."""
    return AsyncResult(asked.id).get(timeout=1, disable_sync_subtasks=False)
