"""`map`: a call for each item as a batch, what it calls when all have ended, and what they returned."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from celery import current_app, shared_task
from django.db import transaction

from queuemgr import (
    BadInput,
    BatchHandle,
    Call,
    MemberResult,
    NewExecution,
    QueuedTask,
    completed_batch,
    current_batch,
    find_batch,
    open_batch,
    queued,
)
from queuemgr.models import AuditEntry, Batch, Execution
from queuemgr.tasks import batch_handle
from queuemgr.worker import housekeeping

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("declaring", "sent")]
Perform = Callable[..., int]


def declare(**options: Any) -> Any:
    @queued(name="shop.square", **options)
    def square(number: int, times: int = 1) -> int:
        if number < 0:
            raise ValueError("negative")
        return number * number * times

    return square


@pytest.fixture
def total() -> Any:
    """Adds up what the members of the batch that called it returned."""

    @queued(name="shop.total")
    def total(plus: int = 0) -> int:
        return plus + sum(member.result for member in completed_batch().results() if member.state == "done")

    return total


def called(name: str) -> Any:
    """What the callback of this event returned."""
    return Execution.objects.get(key__endswith=f":{name}").result


# Items and results


def test_each_item_is_a_call_and_their_results_come_in_order(perform_all: Perform) -> None:
    batch = declare().map([3, (2, 5), {"number": 4, "times": 2}])
    assert (batch.status, batch.ready()) == ("running", False)
    perform_all()
    assert (batch.status, batch.ready(), batch.wait(timeout=0)) == ("done", True, "done")
    assert [(key, state, result) for key, state, result, *_ in batch.results()] == [
        (handle.key, "done", result)
        for handle, result in zip(batch.results(), (9, 20, 32), strict=True)
    ]  # fmt: skip
    assert batch.counts() == {
        "total": 3, "waiting": 0, "running": 0, "done": 3, "failed": 0, "skipped": 0, "cancelled": 0,
    }  # fmt: skip


def test_results_are_read_by_pages_and_stop_at_the_first_that_has_not_ended(
    perform_all: Perform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_handle, "PAGE", 2)
    batch = declare().map(range(5))
    Execution.objects.filter(batch_seq=3).update(run_after="2030-01-01T00:00Z")
    perform_all()
    assert [member.result for member in batch.results()] == [0, 1, 4]
    Execution.objects.update(run_after="2020-01-01T00:00Z")
    housekeeping.tick()
    perform_all()
    assert [member.result for member in batch.results()] == [0, 1, 4, 9, 16]


def test_a_failed_member_says_why_and_has_no_result(perform_all: Perform) -> None:
    batch = declare(retries=0).map([-1, 2])
    perform_all()
    failed, done = batch.results()
    assert (failed.state, failed.result, failed.error_kind) == ("failed", None, "unexpected")
    assert "negative" in failed.error
    assert done == MemberResult(done.key, "done", 4)
    assert batch.wait() == "failed"


def test_items_are_read_as_they_are_inserted_and_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1200):
            read.append(Execution.objects.count() if number % 600 == 599 else 0)
            yield number

    declare().map(items(), window=10)
    assert max(read) == 1000
    assert Execution.objects.filter(run_after=None).count() == 1190


def test_a_window_bounds_how_far_calls_run_ahead_and_a_first_failure_may_cancel_the_rest(
    perform_all: Perform,
) -> None:
    batch = declare(retries=0).map([1, -1, 2, 3], window=1, fail_fast=True)
    assert Execution.objects.filter(run_after=None).count() == 3
    perform_all()
    assert [member.state for member in batch.results()] == ["done", "failed", "cancelled", "cancelled"]
    assert batch.status == "cancelled"


def test_items_are_placed_as_the_function_says(perform_all: Perform) -> None:
    declare().using(priority="high", run_after=60).map([1])
    row = Execution.objects.get()
    assert row.priority == 0
    assert row.run_after is not None
    assert row.run_after > row.created_at


# What it calls


def test_the_results_of_all_are_what_a_callback_works_with(perform_all: Perform, total: Any) -> None:
    batch = declare().map([1, 2, 3], on_success=total, on_failure=total, on_complete=total.call(plus=100))
    assert batch.callback("on_success").status == "waiting"
    assert perform_all() == 5
    assert (called("on_success"), batch.callback("on_complete").result(timeout=0)) == (14, 114)
    assert batch.callback("on_failure").ready() is False
    with pytest.raises(BadInput, match=r"batch .* has no callback 'on_end'"):
        batch.callback("on_end")
    assert not Execution.objects.filter(key__endswith="on_failure").exists()
    assert batch.status == "done"


def test_an_empty_iterable_calls_back_at_once(perform_all: Perform, total: Any) -> None:
    assert declare().map([], on_complete=total).status == "done"
    assert perform_all() == 1
    assert called("on_complete") == 0


def test_callbacks_are_queued_functions_tasks_signatures_and_calls_of_flows(perform_all: Perform) -> None:
    def add(left: int, right: int = 1) -> int:
        return left + right

    task: Any = shared_task(base=QueuedTask, name="shop.add")(add)
    declare().map([1], on_complete=task.s(2, right=3).set(priority=9), on_success=Call("probe", {"n": 1}))
    perform_all()
    assert called("on_complete") == 5
    assert Execution.objects.get(flow="probe").payload == {"n": 1}


def test_what_cannot_be_called_back_is_refused_before_anything_is_enqueued(total: Any) -> None:
    square = declare()

    def one(x: int) -> int:
        return x

    plain: Any = shared_task(name="shop.plain")(one)
    for wrong, said in (
        ("total", "'total' is not a function made by @queued"),
        (plain, "shop.plain is no queued task"),
        (plain.s(), "shop.plain is no queued task"),
        (shared_task(base=QueuedTask, name="shop.one")(one), "missing a required argument"),
    ):
        with pytest.raises(BadInput, match=said):
            square.map([1], on_complete=wrong)
    with pytest.raises(BadInput, match="when its batch completes"):
        square.map([1], on_complete=total.using(run_after=5).call())
    with pytest.raises(BadInput, match="cannot all have the key 'k'"):
        square.using(key="k").map([1])
    assert not Batch.objects.exists()
    assert not Execution.objects.exists()


def test_a_queued_celery_task_maps_too(perform_all: Perform, total: Any) -> None:
    def double(x: int) -> int:
        return 2 * x

    task: Any = shared_task(base=QueuedTask, name="shop.double")(double)
    batch = task.map([1, 2], on_complete=total)
    perform_all()
    assert called("on_complete") == 6
    assert [member.result for member in batch.results()] == [2, 4]


# What goes wrong while items are added


def test_an_item_that_cannot_be_enqueued_cancels_what_was(perform_all: Perform, total: Any) -> None:
    with pytest.raises(BadInput, match="number: Input should be a valid integer"):
        declare().map((str(n) if n < 600 else "x" for n in count()), on_failure=total)
    batch = Batch.objects.get()
    assert batch.cancelled_because == "by application: not all of its items could be added"
    assert set(Execution.objects.exclude(batch=None).values_list("state", flat=True)) == {"cancelled"}
    assert perform_all() == 1
    assert called("on_failure") == 0


def test_all_of_it_is_enqueued_with_the_transaction_around_it_or_not_at_all() -> None:
    square = declare()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        square.map([1, 2])
        raise ZeroDivisionError
    assert not Batch.objects.exists()
    with transaction.atomic():
        batch = square.map([1])
        with pytest.raises(RuntimeError, match="inside a transaction"):
            batch.wait(timeout=1)
    assert batch.status == "running"
    with pytest.raises(TimeoutError, match="has not ended yet: it is running"):
        batch.wait(timeout=0.01)


def test_what_code_enqueues_is_not_in_the_audit_log(perform_all: Perform) -> None:
    declare().map([1])
    assert not AuditEntry.objects.exists()


# Batches of one's own


def test_a_member_adds_to_its_batch_and_opens_batches_in_it(perform_all: Perform, total: Any) -> None:
    @queued(name="shop.tree")
    def tree(depth: int) -> int:
        if depth:
            current_batch().add([depth - 1, depth - 1])
        return 1

    batch = tree.map([3], on_complete=total)
    perform_all()
    assert called("on_complete") == 15
    assert len(list(batch.results())) == 15


def test_a_map_in_a_batch_ends_before_that_does(perform_all: Perform, total: Any) -> None:
    square = declare()

    @queued(name="shop.outer")
    def outer(count: int) -> int:
        square.map(range(count), parent=current_batch(), name=f"inner {count}", on_success=total)
        return count

    batch = outer.map([2, 3], name="all", on_complete=total)
    perform_all()
    assert batch.status == "done"
    assert called(f"{Batch.objects.get(name='all').pk}:on_complete") == 5
    assert find_batch("inner 3").counts()["done"] == 3


def test_a_batch_of_a_flow_is_opened_added_to_closed_and_cancelled() -> None:
    batch = open_batch("night", "probe", on_complete=Call("probe", key="after"))
    assert batch.add([NewExecution("a"), NewExecution("b")]).new == 2
    assert batch.status == "open"
    batch.close()
    assert find_batch("night").cancel("wrong list") == 2
    assert batch.status == "cancelled"
    assert Batch.objects.get().cancelled_because == "by application: wrong list"
    assert Execution.objects.get(key="after").state == "waiting"
    with pytest.raises(BadInput, match="no batch is called 'day'"):
        _ = find_batch("day").status


def test_who_is_no_member_and_no_callback_gets_an_error_that_says_so(perform_all: Perform) -> None:
    said: list[str] = []

    @queued(name="shop.lonely")
    def lonely() -> None:
        for ask in (current_batch, completed_batch):
            with pytest.raises(RuntimeError) as refused:
                ask()
            said.append(str(refused.value).partition(" ")[2])

    lonely.enqueue()
    perform_all()
    assert said == ["is a member of no batch", "is no callback of a batch"]


def test_a_handle_has_coroutines_for_what_waits(perform_all: Perform) -> None:
    async def use() -> tuple[str, str, list[Any]]:
        batch: BatchHandle[int] = await declare().amap([1, 2])
        before = await batch.astatus()
        await asyncio.to_thread(perform_all)
        return before, await batch.awaited(timeout=5), [member.result async for member in batch.aresults()]

    assert asyncio.run(use()) == ("running", "done", [1, 4])


# Eager mode


def test_in_eager_mode_calls_and_callbacks_run_at_once(monkeypatch: pytest.MonkeyPatch, total: Any) -> None:
    monkeypatch.setitem(current_app.conf, "task_always_eager", True)
    seen: list[int] = []

    @queued(name="shop.note")
    def note() -> None:
        seen.append(sum(member.result or 0 for member in completed_batch().results()))

    batch = declare(retries=0).map([1, 2, -1], on_complete=note, on_success=total, on_failure=note)
    assert (batch.status, batch.wait(), [member.result for member in batch.results()]) == (
        "failed", "failed", [1, 4, None],
    )  # fmt: skip
    assert seen == [5, 5]
    assert not Execution.objects.exists()


@pytest.mark.slow_proof
def test_many_items_take_no_more_memory_than_a_few(perform_all: Perform) -> None:
    """Each batch of rows is forgotten before the next: 100 bytes of an item that stay would be seen."""
    square, peaks = declare(), []
    square.map(range(1_000))  # what is loaded and cached once
    for items in (2_000, 40_000):
        gc.collect()
        tracemalloc.start()
        square.map(range(items), window=10)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 500_000, peaks


@pytest.mark.slow_proof
def test_many_results_take_no_more_memory_than_a_few(perform_all: Perform) -> None:
    square, peaks = declare(), []
    for items in (1_000, 20_000):
        batch = square.map(range(items), window=10)
        Execution.objects.filter(batch__name=batch.name).update(
            state="done", finished_at="2026-01-01T00:00Z", result=1, route=None
        )
        gc.collect()
        tracemalloc.start()
        assert sum(member.result for member in batch.results()) == items
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0], peaks
