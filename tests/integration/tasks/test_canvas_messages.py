"""Whoever can write to the broker: messages with Celery's canvas that nobody of the project sent."""

from __future__ import annotations

from typing import Any

import pytest
from celery import chain, current_app
from celery._state import _task_stack
from celery.exceptions import Ignore
from celery.result import AsyncResult

from queuemgr import queued
from queuemgr.lifecycle import canvas_calls
from queuemgr.models import CanvasCall, Execution
from queuemgr.worker import dropped_messages
from tests.integration.tasks.canvas_tasks import plus_one, run

__all__ = ("plus_one", "run")  # fixtures

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("declaring", "sent")]


NO_SIGNATURES: list[Any] = [
    "x", 7, True, ["x"], [None], [[]], [{}], [{"task": 7}], {"task": None}, "[" * 50, [{"options": {}}],
]  # fmt: skip

SIGNATURES: list[dict[str, Any]] = [
    {"task": "nowhere.known", "args": 7},
    {"task": "shop.plus_one", "options": "x", "args": [], "kwargs": {}},
    {"task": "shop.plus_one", "args": [1, 2], "kwargs": {"x": 1}, "options": {}, "subtask_type": "group"},
]

NAMES = ["callbacks", "errbacks", "chain", "chord"]


@pytest.mark.parametrize("follows", NAMES)
def test_a_message_whose_call_is_followed_by_no_task_is_dropped(follows: str, plus_one: Any) -> None:
    dropped_messages._unreported.clear()
    for hostile in NO_SIGNATURES:
        call_by_message(plus_one, "hostile", 1, **{follows: hostile})
    assert sum(dropped_messages._unreported.values()) == len(NO_SIGNATURES)
    assert not Execution.objects.exists()


@pytest.mark.parametrize("follows", NAMES)
@pytest.mark.parametrize("hostile", SIGNATURES, ids=range(len(SIGNATURES)))
def test_whatever_a_message_says_of_what_follows_is_tried_once_and_stops_no_other(
    follows: str, hostile: dict[str, Any], plus_one: Any, run: Any
) -> None:
    number = 7 if follows == "errbacks" else 1
    call_by_message(plus_one, "hostile", number, **{follows: hostile if follows == "chord" else [hostile]})
    chain(plus_one.s(1), plus_one.s()).apply_async(task_id="last")
    run()
    canvas_calls.look()
    assert not CanvasCall.objects.filter(notified_at=None).exists(), "it would be tried for ever"
    assert AsyncResult("last").get(timeout=1) == 3


def call_by_message(task: Any, task_id: str, *args: Any, **headers: Any) -> None:
    """As whoever can write to the broker."""
    task.push_request(id=task_id, called_directly=False, args=args, kwargs={}, **headers)
    try:
        task(*args)
    finally:
        task.pop_request()


def test_a_message_with_the_id_of_another_call_does_not_get_its_result(plus_one: Any, run: Any) -> None:
    handle = plus_one.apply_async((1,))
    run()
    spy = plus_one.s().set(task_id="spy")
    call_by_message(plus_one, handle.key, 1, chain=[dict(spy)])
    run()
    assert AsyncResult("spy").status == "PENDING"
    assert not CanvasCall.objects.filter(key=handle.key).exists()
    assert Execution.objects.count() == 1


def test_no_message_calls_a_function_with_queued_or_takes_a_key_of_the_queue(
    plus_one: Any, run: Any, declaring: None
) -> None:
    """Neither by its name nor by one of Celery's tasks that call others; those that were plain tasks are
    called as before, one at a time."""
    called: list[int] = []

    def note(number: int) -> None:
        called.append(number)

    queued(name="shop.note")(note)
    noting = current_app.tasks["shop.note"]
    dropped_messages._unreported.clear()
    call_by_message(noting, "x", 1)
    call_by_message(plus_one, "schedule:nightly@2026-12-01", 1)
    call_by_message(plus_one, "batch:7:complete", 1)
    assert sum(dropped_messages._unreported.values()) == 3
    for name, items in (("celery.map", [1]), ("celery.starmap", [[1]])):
        for task in (noting, plus_one):
            at_once = current_app.tasks[name]
            with pytest.raises(Ignore):
                call_at_once(at_once, dict(task.s()), items)
    run()
    assert called == []
    assert not Execution.objects.exists()
    assert sum(dropped_messages._unreported.values()) == 7
    call_by_message(plus_one, "mine", 1)
    run()
    assert Execution.objects.get().result == 2


def call_at_once(task: Any, signature: Any, items: Any) -> None:
    """As Celery's worker does."""
    task.push_request(id="x", called_directly=False, args=(signature, items), kwargs={})
    _task_stack.push(task)
    try:
        task(signature, items)
    finally:
        _task_stack.pop()
        task.pop_request()
