"""The contract of a backend of Django's Tasks framework, kept by executions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.test import override_settings
from django.utils import timezone
from django_tasks import TaskContext, TaskResultStatus, default_task_backend, signals
from django_tasks.exceptions import InvalidTaskError, TaskResultDoesNotExist, TaskResultMismatch

from queuemgr import BadInput
from queuemgr.flows.flow import HIGH, LOW, NORMAL, get_flow
from queuemgr.models import Execution, Limit, Route
from queuemgr.operations import executions
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows
from tests.integration.conftest import let_time_pass

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("declaring", "sent")]
Perform = Callable[..., int]
QUEUES = {"QUEUES": ["default", "mail"]}


def add(x: int, y: int = 0) -> int:
    return x + y


async def add_later(x: int) -> int:
    await asyncio.sleep(0)
    return x + 1


def fail(x: str) -> None:
    raise KeyError(x)


def with_context(context: TaskContext, x: int) -> list[Any]:
    return [context.task_result.id, context.attempt, context.task_result.status, x]


def named(tenant: str) -> None: ...


@pytest.fixture(autouse=True)
def tasks() -> Iterator[Any]:
    with override_settings(TASKS={"default": {"BACKEND": "queuemgr.django_tasks.Backend", **QUEUES}}):
        yield default_task_backend


def task(function: Callable[..., Any], **options: Any) -> Any:
    from django_tasks import task as decorator

    return decorator(**options)(function)


def test_a_task_is_enqueued_run_and_its_result_refreshed(perform_all: Perform) -> None:
    result = task(add).enqueue(1, y=2)
    assert (result.status, result.args, result.kwargs) == (TaskResultStatus.READY, [1], {"y": 2})
    assert len(result.id) < 64
    assert result.enqueued_at is not None
    with pytest.raises(ValueError, match="has not finished"):
        _ = result.return_value
    perform_all()
    result.refresh()
    assert (result.status, result.return_value, result.attempts) == (TaskResultStatus.SUCCESSFUL, 3, 1)
    assert result.started_at <= result.finished_at


def test_a_result_is_found_by_its_id_and_only_by_its_own_task(perform_all: Perform, tasks: Any) -> None:
    added = task(add)
    result = added.enqueue(1)
    assert added.get_result(result.id).id == tasks.get_result(result.id).id == result.id
    with pytest.raises(TaskResultMismatch):
        task(fail).get_result(result.id)
    with pytest.raises(TaskResultDoesNotExist):
        added.get_result("nothing")


def test_a_failure_has_its_class_and_traceback(perform_all: Perform) -> None:
    result = task(fail).enqueue("a")
    perform_all()
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    (error,) = result.errors
    assert error.exception_class is KeyError
    assert "in fail" in error.traceback
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value


def test_a_task_cancelled_or_skipped_has_failed(perform_all: Perform) -> None:
    result = task(add).enqueue(1)
    executions.cancel(Execution.objects.all(), Actor("ann", "admin"))
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert result.errors[0].exception_class_path == "queuemgr.TaskNotRun"


@pytest.mark.parametrize(("priority", "rank"), [(-100, LOW), (-1, LOW), (0, NORMAL), (1, HIGH), (100, HIGH)])
def test_a_priority_below_0_is_low_0_is_normal_above_0_is_high(priority: int, rank: int) -> None:
    task(add).using(priority=priority).enqueue(1)
    task(add, priority=priority).enqueue(1)
    assert set(Execution.objects.values_list("priority", flat=True)) == {rank}


def test_run_after_is_kept(perform_all: Perform) -> None:
    when = timezone.now() + timedelta(hours=1)
    result = task(add).using(run_after=when).enqueue(1)
    assert Execution.objects.get().run_after == when
    assert perform_all() == 0
    let_time_pass(Execution.objects.waiting())
    assert perform_all() == 1
    result.refresh()
    assert result.is_finished


def test_a_task_that_takes_context_gets_its_result(perform_all: Perform) -> None:
    result = task(with_context, takes_context=True).enqueue(5)
    perform_all()
    result.refresh()
    assert result.return_value == [result.id, 1, "RUNNING", 5]


def test_a_coroutine_function_is_a_task_and_may_be_enqueued_from_one(perform_all: Perform) -> None:
    result = asyncio.run(task(add_later).aenqueue(1))
    perform_all()
    asyncio.run(result.arefresh())
    assert result.return_value == 2


def test_a_queue_is_a_phase_and_one_not_listed_is_refused() -> None:
    mailed = task(add, queue_name="mail")
    mailed.enqueue(1)
    task(add).using(queue_name="mail").enqueue(2)
    task(add).enqueue(3)
    assert list(Execution.objects.order_by("pk").values_list("phase", flat=True)) == [
        "mail",
        "mail",
        "default",
    ]
    assert {get_flow(name).name for name in Execution.objects.values_list("flow", flat=True)}
    with pytest.raises(InvalidTaskError, match="not valid"):
        task(add, queue_name="other")


def test_what_cannot_be_stored_is_refused_at_once() -> None:
    with pytest.raises(BadInput, match=r"x: Input should be a valid integer"):
        task(add).enqueue(object())
    with pytest.raises(InvalidTaskError, match="module level"):
        task(lambda: None)
    assert not Execution.objects.exists()


def test_a_task_is_enqueued_with_the_transaction_around_it() -> None:
    with pytest.raises(KeyError), transaction.atomic():
        task(add).enqueue(1)
        raise KeyError
    assert not Execution.objects.exists()


def test_the_signals_of_the_framework_are_sent(perform_all: Perform) -> None:
    sent: list[tuple[str, str]] = []

    def receiver(name: str) -> Callable[..., None]:
        return lambda task_result, **kwargs: sent.append((name, str(task_result.status)))

    receivers = {name: receiver(name) for name in ("task_enqueued", "task_started", "task_finished")}
    for name, each in receivers.items():
        getattr(signals, name).connect(each)
    try:
        task(add).enqueue(1)
        perform_all()
        task(fail).enqueue("a")
        perform_all()
    finally:
        for name, each in receivers.items():
            getattr(signals, name).disconnect(each)
    before = [("task_enqueued", "READY"), ("task_started", "RUNNING")]
    assert sent == [*before, ("task_finished", "SUCCESSFUL"), *before, ("task_finished", "FAILED")]


def test_a_receiver_that_raises_does_not_fail_the_task(perform_all: Perform) -> None:
    def broken(**kwargs: Any) -> None:
        raise RuntimeError

    signals.task_started.connect(broken)
    try:
        result = task(add).enqueue(1)
        perform_all()
    finally:
        signals.task_started.disconnect(broken)
    result.refresh()
    assert result.return_value == 1


def test_limits_and_retries_may_be_stated_to_the_task_or_the_backend(perform_all: Perform) -> None:
    limited = task(named, limits={"tenant:{tenant}": 3}, retries=1)
    limited.enqueue("acme")
    limit_rows.sync()
    assert Limit.objects.get(name="tenant:*").max_running == 3
    assert Route.objects.get().limit_keys == "tenant:acme"
    with (
        override_settings(TASKS={"default": {
            "BACKEND": "queuemgr.django_tasks.Backend", "OPTIONS": {"retries": 2, "limits": ["x"]},
        }}),
        pytest.raises(InvalidTaskError, match="names 'hots'"),
    ):  # fmt: skip
        task(fail, limits=["host:{hots}"])


def test_an_option_there_is_not_is_refused() -> None:
    options = {"BACKEND": "queuemgr.django_tasks.Backend", "OPTIONS": {"retires": 2}}
    with (
        override_settings(TASKS={"default": options}),
        pytest.raises(Exception, match="OPTIONS has retires; there are: limits"),
    ):
        task(add)
