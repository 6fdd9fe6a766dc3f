"""A function with `@queued`: enqueued with the caller's transaction, run under its limits, with a result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from queuemgr import (
    Handle,
    NoSuchExecution,
    Skipped,
    Snoozed,
    StepFailed,
    TaskFailed,
    TaskNotRun,
    current_work,
    queued,
)
from queuemgr.base.errors import BadInput, QueueFull
from queuemgr.flows.flow import HIGH, LOW
from queuemgr.models import Attempt, Execution, Limit, Queue
from queuemgr.reporting import stats
from queuemgr.scheduling import limit_rows
from tests.integration.conftest import let_time_pass
from tests.integration.tasks.a_task import declare

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("declaring", "sent")]


Perform = Callable[..., int]


def test_what_was_spent_of_a_limit_is_shown_when_nothing_waits_on_it_any_more(perform_all: Perform) -> None:
    send = declare(limits={"model": {"daily_budget": 10}, "host:{host}": {"daily_budget": 9}}, cost=3)
    send.enqueue("a.example")
    perform_all()
    spent = {limit["limit"]: limit["spent"] for limit in stats.limits()}
    assert (spent["model"], spent["fleet"]) == (3, 3)


def test_a_call_runs_and_its_result_is_what_the_function_returned(perform_all: Perform) -> None:
    send = declare()
    handle = send.enqueue("a.example", count=2)
    assert handle.status == "waiting"
    assert not handle.ready()
    assert perform_all() == 1
    assert handle.status == "done"
    assert handle.result() == send("a.example", count=2)


def test_a_handle_is_found_again_by_its_key(perform_all: Perform) -> None:
    send = declare()
    handle = send.enqueue("a.example")
    perform_all()
    assert send.handle(handle.key).result(timeout=0) == handle.result()


def test_a_call_is_enqueued_with_the_transaction_around_it_or_not_at_all() -> None:
    send = declare()
    with pytest.raises(KeyError), transaction.atomic():
        handle = send.enqueue("a.example")
        raise KeyError
    with pytest.raises(NoSuchExecution, match=r"was its transaction rolled back\?"):
        _ = handle.status
    with transaction.atomic():
        kept = send.enqueue("kept")
        with pytest.raises(KeyError), transaction.atomic():
            send.enqueue("taken back with its savepoint")
            raise KeyError
    assert list(Execution.objects.values_list("key", flat=True)) == [kept.key]


def test_many_calls_in_one_transaction_are_inserted_by_few_statements(
    django_assert_max_num_queries: Any,
) -> None:
    send = declare(limits=["host:{host}"])
    send.enqueue("warm")
    with django_assert_max_num_queries(120), transaction.atomic():
        for number in range(1000):
            send.enqueue(f"h{number % 5}")
    assert Execution.objects.count() == 1001


def test_the_status_of_a_call_is_known_inside_its_transaction() -> None:
    send = declare()
    with transaction.atomic():
        handle = send.enqueue("a.example")
        assert handle.status == "waiting"
        with pytest.raises(RuntimeError, match="cannot be waited for inside a transaction"):
            handle.result(timeout=1)
    assert Execution.objects.count() == 1


def test_a_full_queue_is_refused_by_the_call_or_by_the_commit_which_then_stores_nothing() -> None:
    send = declare()
    limit_rows.sync()
    Queue.objects.filter(name="default.normal").update(max_pending=2)
    send.enqueue("first")
    with pytest.raises(QueueFull), transaction.atomic():
        send.enqueue("second")
        send.enqueue("third")
    assert Execution.objects.count() == 1
    send.enqueue("second")
    with pytest.raises(QueueFull):
        send.enqueue("third")
    with transaction.atomic():  # the connection works as before
        Limit.objects.exists()


def test_many_calls_are_enqueued_at_once() -> None:
    send = declare()
    handles = send.enqueue_many({"host": f"h{number}"} for number in range(1200))
    assert len({handle.key for handle in handles}) == Execution.objects.count() == 1200
    assert Execution.objects.latest("pk").payload == {"host": "h1199"}


def test_a_call_may_be_placed_by_priority_time_expiry_and_key(perform_all: Perform) -> None:
    send = declare(priority="low")
    when = timezone.now() + timedelta(hours=2)
    send.enqueue("low")
    send.using(priority="high", key="mine").enqueue("high")
    send.later(when, "later")
    send.later(timedelta(hours=2), "later, too")
    send.using(expires=timezone.now() - timedelta(seconds=1), key="too late").enqueue("expired")
    rows = {row.payload["host"]: row for row in Execution.objects.all()}
    assert (rows["low"].priority, rows["high"].priority, rows["high"].key) == (LOW, HIGH, "mine")
    assert rows["later"].run_after == when
    assert rows["later, too"].run_after is not None
    assert abs((rows["later, too"].run_after - when).total_seconds()) < 60
    assert perform_all() == 3
    with pytest.raises(TaskNotRun, match="was skipped: it expired at"):
        send.handle("too late").result()


def test_calls_of_the_same_unique_arguments_are_one_execution(perform_all: Perform) -> None:
    send = declare(unique="of {host}")
    one, other = send.enqueue("a.example"), send.enqueue("a.example", count=3)
    assert one == other
    assert send.enqueue("b.example") != one
    assert perform_all() == 2
    assert other.result().host == "a.example"


def test_a_call_that_cannot_be_made_is_refused_at_once_and_stores_nothing() -> None:
    send = declare(limits=["host:{host}"])
    for call in ({}, {"host": 1}, {"host": "a", "count": "x"}, {"hots": "a"}):
        with pytest.raises(BadInput, match=r"shop\.send"):
            send.enqueue(**call)
    with pytest.raises(BadInput, match="NUL"):
        send.enqueue("a\x00b")
    with pytest.raises(
        BadInput, match=r"takes the arguments of each call by name, as \{'host': …, 'count': …\}"
    ):
        send.enqueue_many(["a"])
    with pytest.raises(BadInput, match="priority 'urgent' is not one of"):
        send.using(priority="urgent")
    with pytest.raises(BadInput, match="more than ten years ahead"):
        send.later(timedelta(days=9999), "a")
    assert not Execution.objects.exists()


def fails(error: Callable[[], BaseException], **options: Any) -> Any:
    @queued(name="shop.fails", **options)
    def send() -> None:
        raise error()

    return send


def test_an_error_is_raised_by_the_result_with_its_kind_and_traceback(perform_all: Perform) -> None:
    handle = fails(lambda: KeyError("host"), retries=0).enqueue()
    perform_all()
    with pytest.raises(TaskFailed) as failed:
        handle.result()
    assert (failed.value.kind, failed.value.message) == ("unexpected", "KeyError: 'host'")
    assert "in send" in failed.value.traceback


def test_an_exception_is_retried_as_often_as_the_task_says(perform_all: Perform) -> None:
    handle = fails(lambda: KeyError("host"), retries=2).enqueue()
    for attempt in (1, 2, 3):
        assert perform_all() == 1
        assert handle.ready() == (attempt == 3)
        let_time_pass(Execution.objects.waiting())
    assert perform_all() == 0


def test_an_error_of_a_kind_follows_the_policy_of_its_kind(perform_all: Perform) -> None:
    handle = fails(lambda: StepFailed("not_found", "no such host"), retries=9).enqueue()
    perform_all()
    assert handle.status == "failed"
    assert Attempt.objects.get().error_kind == "not_found"


def test_a_task_may_return_an_outcome(perform_all: Perform) -> None:
    outcomes: list[Any] = [Snoozed(0, "not yet"), Skipped("not wanted")]

    @queued(name="shop.outcomes")
    def send() -> Any:
        return outcomes.pop(0)

    handle = send.enqueue()
    perform_all(at_most=1)
    assert handle.status == "waiting"
    let_time_pass(Execution.objects.waiting())
    perform_all()
    with pytest.raises(TaskNotRun, match="was skipped: not wanted"):
        handle.result()


def test_a_result_that_cannot_be_stored_fails_once_and_says_so(perform_all: Perform) -> None:
    @queued(name="shop.object")
    def send() -> Any:
        return object()

    handle = send.enqueue()
    perform_all()
    with pytest.raises(TaskFailed, match="what it returned cannot be stored as JSON"):
        handle.result()
    assert Attempt.objects.count() == 1


def test_a_result_nobody_wants_is_not_stored(perform_all: Perform) -> None:
    handle = declare(keep_result=False).enqueue("a.example")
    perform_all()
    assert handle.result() is None
    assert Execution.objects.get().result is None


def test_a_task_knows_its_work(perform_all: Perform) -> None:
    @queued(name="shop.key", cost=2)
    def send() -> str:
        current_work().record_requests(1)
        return current_work().key

    handle = send.enqueue()
    perform_all()
    assert handle.result() == handle.key
    assert Attempt.objects.get().cost == 1
    with pytest.raises(RuntimeError, match="for the code of a step"):
        current_work()


def test_a_coroutine_function_may_be_queued(perform_all: Perform) -> None:
    @queued(name="shop.async")
    async def send(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    handle: Handle[float] = send.enqueue(0.01)
    perform_all()
    assert handle.result() == 0.01


def test_a_task_tells_the_fleet_what_a_service_left_also_from_a_coroutine(perform_all: Perform) -> None:
    @queued(name="shop.ask", limits={"openai:gpt": {}}, uses={"tokens": 100})
    def ask(left: int) -> float | None:
        said = current_work().observe({"x-ratelimit-remaining-tokens": str(left), "retry-after-ms": "9"})
        return said.retry_after

    @queued(name="shop.ask_async", limits={"openai:gpt": {}}, uses={"tokens": 100})
    async def ask_async(left: int) -> None:
        await current_work().aobserve({"x-ratelimit-remaining-tokens": str(left)})

    first = ask.enqueue(150)
    assert perform_all() == 1
    assert first.result() == 0.009
    ask_async.enqueue(20)
    ask.enqueue(150)
    assert perform_all() == 1, "20 are left for the other, which is expected to use 100"
    assert Execution.objects.waiting().get().flow == "shop.ask"


def test_a_result_not_there_in_time_is_a_timeout() -> None:
    handle = declare().enqueue("a.example")
    with pytest.raises(TimeoutError, match="has not ended yet: it is waiting"):
        handle.result(timeout=0.1)


def test_calls_from_coroutines(perform_all: Perform) -> None:
    """`aenqueue`, `astatus` and `aresult`."""
    send = declare()

    async def enqueue() -> Handle[Any]:
        made: Handle[Any] = await send.aenqueue("a.example")
        assert await made.astatus() == "waiting"
        return made

    handle = asyncio.run(enqueue())
    perform_all()
    assert asyncio.run(handle.aresult(timeout=1)).host == "a.example"
