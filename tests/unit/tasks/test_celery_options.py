"""Each option of Celery's `apply_async` means what it does there, changes nothing, or is refused by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import Celery
from celery.app.task import Task
from django.utils import timezone

from queuemgr.base.errors import BadInput
from queuemgr.flows.flow import HIGH, LOW, NORMAL
from queuemgr.tasks.call_arguments import CallArguments
from queuemgr.tasks.celery_options import ABOUT_MESSAGES, INSTEAD, placing_of
from queuemgr.tasks.celery_results import FOLLOWS, PLACE
from queuemgr.tasks.definition import TaskDefinition
from queuemgr.tasks.enqueue_call import Placing

TASK = TaskDefinition("shop.send", CallArguments("shop.send", lambda host: None), phase="mail")
TOLD = {*FOLLOWS, *PLACE}
"""What is done after the call has ended: see test_canvas."""
HONOURED = {"countdown", "eta", "expires", "priority", "queue", "task_id"}


def placed(redis: bool = False, **options: Any) -> Placing:
    return placing_of(TASK, options, redis=redis)


def test_every_option_of_celery_is_honoured_ignored_or_refused() -> None:
    """Those of `apply_async` itself, and of what it calls."""
    named = {
        name
        for function in (Task.apply_async, Celery.send_task)
        for name in inspect.signature(function).parameters
    }
    of_the_call = {"self", "name", "args", "kwargs", "options"}
    of_the_sender = {"result_cls", "route_name", "router"}
    assert named - of_the_call - of_the_sender <= HONOURED | TOLD | ABOUT_MESSAGES | set(INSTEAD)


@pytest.mark.parametrize("option", sorted(INSTEAD))
def test_an_option_that_cannot_be_honoured_is_refused_with_what_to_do_instead(option: str) -> None:
    with pytest.raises(BadInput, match=rf"^shop\.send: {option}= does not go with a queued task: \w+"):
        placed(**{option: [1], "group_index": 0})


@pytest.mark.parametrize("option", sorted(ABOUT_MESSAGES))
def test_an_option_of_the_message_changes_nothing(option: str) -> None:
    assert placed(**{option: "anything"}) == placed()


def test_an_option_nobody_knows_is_refused_by_name() -> None:
    with pytest.raises(BadInput, match="contdown is no option of a queued task"):
        placed(contdown=3)


def in_an_hour() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


@pytest.mark.parametrize(
    ("given", "ahead"),
    [
        (lambda: {"countdown": 60}, 60),
        (lambda: {"countdown": 0.5}, 0.5),
        (lambda: {"countdown": timedelta(minutes=2)}, 120),
        (lambda: {"eta": in_an_hour()}, 3600),
        (lambda: {"eta": in_an_hour().replace(tzinfo=None)}, 3600),
        (lambda: {"eta": in_an_hour().isoformat()}, 3600),
    ],
)
def test_countdown_and_eta_say_when_it_may_start(given: Callable[[], dict[str, Any]], ahead: float) -> None:
    run_after = placed(**given()).run_after
    assert run_after is not None
    assert abs((run_after - timezone.now()).total_seconds() - ahead) < 30


@pytest.mark.parametrize("given", ["soon", object(), [1], 1e300, float("nan")])
def test_a_time_that_is_none_is_refused(given: Any) -> None:
    for option in ("countdown", "eta", "expires"):
        with pytest.raises(BadInput, match=option):
            placed(**{option: given})


@pytest.mark.parametrize(
    ("redis", "priority", "rank"),
    [
        (False, 9, HIGH), (False, 5, NORMAL), (False, 0, LOW), (True, 0, HIGH), (True, 9, LOW),
        (True, "high", HIGH), (False, "low", LOW), (False, None, None),
    ],
)  # fmt: skip
def test_a_priority_means_what_it_means_to_the_projects_broker(
    redis: bool, priority: Any, rank: int | None
) -> None:
    assert placed(redis, priority=priority).priority == rank


@pytest.mark.parametrize("priority", [10, -1, "urgent", True, 1.5])
def test_a_priority_there_is_not_is_refused(priority: Any) -> None:
    with pytest.raises(BadInput, match="priority"):
        placed(priority=priority)


def test_the_queue_of_a_call_is_its_phase_or_refused() -> None:
    assert placed(queue="mail.high") == placed(queue="mail") == placed()
    with pytest.raises(
        BadInput, match="queue='other' does not go with a queued task; it waits in phase 'mail'"
    ):
        placed(queue="other")


def test_a_task_id_is_the_key_of_the_call() -> None:
    assert placed(task_id="of-mine").key == "of-mine"
