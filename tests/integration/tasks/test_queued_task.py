"""An existing Celery task moves over by one line, `base=QueuedTask`, and does what it did."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from celery import current_app, shared_task
from celery.exceptions import Ignore, MaxRetriesExceededError, Reject
from django.db import transaction
from django.utils import timezone

from queuemgr import ConfigurationError, Handle, QueuedTask, TaskFailed, TaskNotRun
from queuemgr.base.errors import BadInput
from queuemgr.flows.flow import HIGH, LOW, get_flow
from queuemgr.lifecycle.canvas_calls import MARK
from queuemgr.lifecycle.publish import NO_TIME_LIMIT
from queuemgr.models import Attempt, Execution, Limit, Outcome, Route
from queuemgr.scheduling import limit_rows
from tests.integration.conftest import let_time_pass

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("declaring", "sent")]
Perform = Callable[..., int]


def declare(function: Callable[..., Any], **options: Any) -> Any:
    task: Any = shared_task(base=QueuedTask, name="shop.send", **options)(function)
    assert task.name == "shop.send"  # binds it, as a worker does
    return task


def send(host, count=1, *, when=None):  # type: ignore[no-untyped-def]  # as many are written
    return {"host": host * count, "when": when}


def test_delay_enqueues_and_the_handle_has_the_result(perform_all: Perform) -> None:
    task = declare(send)
    handle: Handle[Any] = task.delay("a", count=2, when=dt.date(2026, 1, 1))
    assert (handle.status, handle.id) == ("waiting", handle.key)
    perform_all()
    assert handle.get(timeout=1) == {"host": "aa", "when": dt.date(2026, 1, 1)}
    assert handle.successful()


def test_called_as_it_is_the_function_runs_here_and_now() -> None:
    assert declare(send)("a", count=2) == {"host": "aa", "when": None}
    assert not Execution.objects.exists()


def test_a_message_of_the_plain_task_is_enqueued_once_however_often_it_comes(perform_all: Perform) -> None:
    """As from the broker, or from processes that were not deployed yet."""
    task = declare(send)
    for _ in range(2):
        task.push_request(id="old-1", called_directly=False, args=("a",), kwargs={"count": 2})
        try:
            assert task("a", count=2) == "old-1"
        finally:
            task.pop_request()
    assert perform_all() == 1
    assert Execution.objects.get().result == {"host": "aa", "when": None}


def test_a_task_may_call_itself_as_a_function(perform_all: Perform) -> None:
    def countdown(self: Any, number: int) -> int:
        return 0 if number == 0 else 1 + self(number - 1)

    handle = declare(countdown, bind=True).delay(3)
    perform_all()
    assert handle.get(timeout=0) == 3


def test_apply_async_places_the_call(perform_all: Perform) -> None:
    task = declare(send)
    task.apply_async(("a",), {"count": 2}, countdown=3600, priority=0, task_id="mine", queue="default")
    row = Execution.objects.get()
    assert (row.key, row.payload, row.priority) == ("mine", {"host": "a", "count": 2, MARK: True}, HIGH)
    assert row.run_after is not None
    assert row.run_after > timezone.now() + timedelta(minutes=59)
    expired = task.apply_async(("b",), expires=timezone.now() - timedelta(seconds=1), priority=9)
    assert Execution.objects.get(key=expired.key).priority == LOW
    perform_all()
    with pytest.raises(TaskNotRun, match="it expired at"):
        expired.get(timeout=0)


def test_a_signature_of_a_task_is_enqueued_too(perform_all: Perform) -> None:
    task = declare(send)
    handle = task.s("a", count=2).apply_async(countdown=0)
    perform_all()
    assert handle.get(timeout=0)["host"] == "aa"


@pytest.mark.parametrize("shape", [
    lambda task: task.starmap([("a",)]), lambda task: task.chunks([("a",)], 1),
])  # fmt: skip
def test_many_calls_in_one_message_are_refused_as_no_limit_would_hold(shape: Callable[[Any], Any]) -> None:
    with pytest.raises(BadInput, match=r"shop\.send: starmap and chunks .* task\.map\(items\)"):
        shape(declare(send))


def test_arguments_are_checked_by_the_call() -> None:
    task = declare(send)
    with pytest.raises(BadInput, match="missing a required argument: 'host'"):
        task.delay()
    with pytest.raises(BadInput, match="cannot be stored as JSON"):
        task.delay(object())


def test_limits_hold_for_it_and_its_time_limits_are_those_of_its_step() -> None:
    task = declare(send, limits={"host:{host}": 2}, cost=5, time_limit=30, soft_time_limit=20)
    limit_rows.sync()
    task.delay("a")
    assert Limit.objects.get(name="host:*").max_running == 2
    route = Route.objects.get()
    assert (route.limit_keys, route.cost) == ("host:a", 5)
    ((_, step, _),) = get_flow("shop.send").steps()
    assert (step.soft_time_limit, step.time_limit) == (20, 30)
    assert task.time_limit == task.soft_time_limit == NO_TIME_LIMIT


def test_what_cannot_work_is_refused_when_it_is_declared() -> None:
    with pytest.raises(ConfigurationError, match="names 'hots'"):
        declare(send, limits=["host:{hots}"])


def test_a_rate_of_one_worker_is_refused_with_that_of_all() -> None:
    with pytest.raises(ConfigurationError, match=r"limits=\{'send': '10/m'\}, which holds over all workers"):
        declare(send, rate_limit="10/m")


def test_a_rate_that_settings_state_for_all_tasks_holds_no_message_back(monkeypatch: Any) -> None:
    monkeypatch.setitem(current_app.conf, "task_default_rate_limit", "1/h")
    assert declare(send).rate_limit is None


def test_apply_runs_the_function_here_and_now_as_in_celery() -> None:
    def work(self: Any, host: str) -> list[Any]:
        if self.request.retries < 2:
            raise self.retry(countdown=0)
        return [host, self.request.retries]

    assert declare(send).apply(("a",), {"count": 2}).get() == {"host": "aa", "when": None}
    bound: Any = shared_task(base=QueuedTask, name="shop.bound", bind=True)(work)
    assert bound.apply(("a",)).get() == ["a", 2]
    assert not Execution.objects.exists()


def raising(*errors: BaseException) -> Callable[..., int]:
    left = list(errors)

    def work() -> int:
        if left:
            raise left.pop(0)
        return 7

    return work


def test_an_exception_ends_it_as_in_celery(perform_all: Perform) -> None:
    handle = declare(raising(KeyError("a"))).delay()
    perform_all()
    with pytest.raises(TaskFailed, match="KeyError"):
        handle.get(timeout=0)
    assert Attempt.objects.count() == 1


def perform_until_it_ends(perform_all: Perform) -> None:
    while perform_all():
        let_time_pass(Execution.objects.waiting())


def test_autoretry_for_retries_those_exceptions_and_no_others(perform_all: Perform) -> None:
    task = declare(
        raising(ConnectionError("reset"), ConnectionError("reset"), KeyError("a")),
        autoretry_for=(ConnectionError,), retry_backoff=True, max_retries=5,
    )  # fmt: skip
    handle = task.delay()
    perform_until_it_ends(perform_all)
    with pytest.raises(TaskFailed, match="KeyError"):
        handle.get(timeout=0)
    outcomes = Attempt.objects.order_by("pk").values_list("outcome", flat=True)
    assert list(outcomes) == [Outcome.RETRIED, Outcome.RETRIED, Outcome.FAILED]


@pytest.mark.parametrize(("max_retries", "attempts"), [(0, 1), (2, 3), (None, 9)])
def test_autoretry_ends_after_max_retries(
    perform_all: Perform, max_retries: int | None, attempts: int
) -> None:
    task = declare(
        raising(*[ConnectionError("reset")] * 8), autoretry_for=(ConnectionError,),
        retry_kwargs={"countdown": 5}, max_retries=max_retries,
    )  # fmt: skip
    handle = task.delay()
    perform_until_it_ends(perform_all)
    assert Attempt.objects.count() == attempts
    assert handle.status == ("done" if max_retries is None else "failed")


def test_self_retry_counts_waits_and_gives_up_as_in_celery(perform_all: Perform) -> None:
    seen: list[int] = []

    def work(self: Any, host: str) -> None:
        seen.append(self.request.retries)
        raise self.retry(exc=ConnectionError(host), countdown=3600, max_retries=2)

    handle = declare(work, bind=True).delay("a.example")
    perform_all()
    waiting = Execution.objects.get()
    assert waiting.run_after is not None
    assert waiting.run_after > timezone.now() + timedelta(minutes=59)
    let_time_pass(Execution.objects.waiting())
    perform_until_it_ends(perform_all)
    assert seen == [0, 1, 2]
    with pytest.raises(TaskFailed, match=r"ConnectionError: a\.example"):
        handle.get(timeout=0)


def test_self_retry_lets_others_of_its_limits_start_meanwhile(perform_all: Perform) -> None:
    """The wait is that of one call: no service asked for it."""

    def work(self: Any, host: str, busy: bool) -> str:
        if busy:
            raise self.retry(countdown=3600)
        return host

    task = declare(work, bind=True, limits={"host:{host}": 2})
    task.delay("a.example", busy=True)
    perform_all()
    other = task.delay("a.example", busy=False)
    perform_all()
    assert other.get(timeout=0) == "a.example"


def test_self_retry_without_an_exception_ends_with_celerys_own(perform_all: Perform) -> None:
    def work(self: Any) -> None:
        self.retry(countdown=0)

    handle = declare(work, bind=True, max_retries=1).delay()
    perform_until_it_ends(perform_all)
    with pytest.raises(TaskFailed, match=MaxRetriesExceededError.__name__):
        handle.get(timeout=0)


def test_self_retry_with_other_arguments_is_refused(perform_all: Perform) -> None:
    def work(self: Any, number: int) -> None:
        self.retry(args=(number + 1,))

    handle = declare(work, bind=True).delay(1)
    perform_all()
    with pytest.raises(TaskFailed, match="enqueue another call instead"):
        handle.get(timeout=0)


def test_a_bound_task_knows_its_request(perform_all: Perform) -> None:
    def work(self: Any, host: str, *, count: int) -> list[Any]:
        request = self.request
        return [request.id, request.args, request.kwargs, request.retries, request.called_directly]

    handle = declare(work, bind=True).delay("a", count=2)
    perform_all()
    assert handle.get(timeout=0) == [handle.id, ["a"], {"count": 2}, 0, False]


@pytest.mark.parametrize(("error", "status"), [(Ignore(), "skipped"), (Reject("no"), "failed")])
def test_ignore_and_reject_end_it(perform_all: Perform, error: Exception, status: str) -> None:
    handle = declare(raising(error), retries=5).delay()
    perform_all()
    assert handle.status == status


def test_a_result_is_not_stored_where_the_task_says_so(perform_all: Perform) -> None:
    handle = declare(send, ignore_result=True).delay("a")
    perform_all()
    assert handle.get(timeout=0) is None


def test_delays_in_a_transaction_are_one_insert_and_end_with_it(django_assert_max_num_queries: Any) -> None:
    task = declare(send, limits=["host:{host}"])
    task.delay("warm")
    with django_assert_max_num_queries(60), transaction.atomic():
        handles = [task.delay("a") for _ in range(400)]
    assert {handle.status for handle in handles[:3]} == {"waiting"}
    with pytest.raises(KeyError), transaction.atomic():
        task.delay("gone")
        raise KeyError
    assert Execution.objects.count() == 401
