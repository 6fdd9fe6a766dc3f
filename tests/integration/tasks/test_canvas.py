"""Chains, groups and chords of Celery's with queued tasks in them: each ends, and `get()` of each returns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from celery import chain, chord, current_app, group
from celery.backends.base import DisabledBackend
from celery.result import AsyncResult
from django.db import transaction

from queuemgr import NoSuchExecution, TaskFailed, TaskNotRun, Unique
from queuemgr.base.errors import BadInput
from queuemgr.lifecycle import canvas_calls
from queuemgr.models import CanvasCall, Execution
from queuemgr.operations import executions
from queuemgr.operations.controls import Actor
from queuemgr.tasks import celery_results
from queuemgr.worker import housekeeping
from tests.integration.tasks.canvas_tasks import (
    declare,
    declare_flaky,
    plus_one,
    refuse_seven,
    result_of,
    run,
    same,
    text_of,
    total,
    twice,
    typed_plus_one,
)

__all__ = ("plus_one", "run", "total")  # fixtures

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("declaring", "sent")]
ROOT = Actor("root", "command")


def test_a_chain_continues_and_its_result_is_that_of_its_last_task(plus_one: Any, run: Any) -> None:
    asked = chain(plus_one.s(1), plus_one.s(), plus_one.s()).apply_async()
    run()
    assert asked.get(timeout=1) == 4
    assert asked.parent.get(timeout=1) == 3
    assert Execution.objects.count() == 3


def test_a_chain_whose_first_task_fails_has_failed(plus_one: Any, run: Any) -> None:
    asked = chain(plus_one.s(7), plus_one.s(), plus_one.s()).apply_async()
    run()
    with pytest.raises(TaskFailed, match="seven"):
        asked.get(timeout=1)
    assert Execution.objects.count() == 1


def test_a_failed_task_that_a_person_retries_continues_its_chain(run: Any) -> None:
    works, flaky = declare_flaky()
    asked = chain(flaky.s(7), flaky.s()).apply_async()
    run()
    with pytest.raises(TaskFailed, match="zero"):
        asked.get(timeout=1)
    assert executions.retry(Execution.objects.all(), ROOT) == 1
    run()
    with pytest.raises(TaskFailed, match="zero"):
        result_of(asked)
    works.append(1)
    assert executions.retry(Execution.objects.all(), ROOT) == 1
    run()
    assert [result_of(each) for each in (asked.parent, asked)] == [7, 7]
    assert sorted(Execution.objects.values_list("state", flat=True)) == ["done", "done"]


def test_a_chord_that_failed_stays_failed_when_a_person_retries_its_part(total: Any, run: Any) -> None:
    works, flaky = declare_flaky()
    asked = chord([flaky.s(1), flaky.s(2)], total.s()).apply_async()
    run()
    works.append(1)
    executions.retry(Execution.objects.all(), ROOT)
    run()
    with pytest.raises(Exception, match="zero"):
        asked.get(timeout=1)
    assert not Execution.objects.filter(flow="shop.total").exists()


def test_a_group_has_the_results_of_all_in_order(plus_one: Any, run: Any) -> None:
    asked = group(plus_one.s(number) for number in range(5)).apply_async()
    run()
    assert asked.get(timeout=1) == [1, 2, 3, 4, 5]


def test_a_chord_calls_its_body_once_with_the_results_of_its_header(
    plus_one: Any, total: Any, run: Any
) -> None:
    asked = chord([plus_one.s(number) for number in range(5)], total.s()).apply_async()
    run()
    assert asked.get(timeout=1) == 15
    assert Execution.objects.filter(flow="shop.total").count() == 1


def test_a_chord_one_of_whose_tasks_fails_has_failed(plus_one: Any, total: Any, run: Any) -> None:
    asked = chord([plus_one.s(number) for number in (6, 7)], total.s()).apply_async()
    run()
    with pytest.raises(Exception, match="seven"):
        asked.get(timeout=1)
    assert not Execution.objects.filter(flow="shop.total").exists()


def test_callbacks_are_called_with_the_result_and_after_an_error_with_its_id(plus_one: Any, run: Any) -> None:
    failed = declare("failed", same)
    plus_one.apply_async((1,), link=plus_one.s())
    plus_one.apply_async((7,), task_id="bad", link_error=[failed.s()])
    run()
    assert sorted(Execution.objects.filter(state="done").values_list("flow", "result")) == [
        ("shop.failed", "bad"), ("shop.plus_one", 2), ("shop.plus_one", 3),
    ]  # fmt: skip


def test_a_call_with_an_id_of_its_own_is_found_by_it(plus_one: Any, run: Any) -> None:
    handle = plus_one.apply_async((1,), task_id="mine")
    assert AsyncResult("mine").status == "PENDING"
    run()
    assert (AsyncResult("mine").get(timeout=1), handle.get(timeout=1)) == (2, 2)


def test_a_call_without_one_records_nothing(plus_one: Any) -> None:
    plus_one.delay(1)
    assert not CanvasCall.objects.exists()
    assert Execution.objects.get().payload == {"number": 1}


@pytest.mark.parametrize("end", [executions.cancel, executions.skip])
def test_what_a_person_ended_is_reported_too(plus_one: Any, run: Any, end: Any) -> None:
    asked = chain(plus_one.s(1), plus_one.s()).apply_async()
    end(Execution.objects.all(), ROOT)
    canvas_calls.look()
    run()
    with pytest.raises(TaskNotRun, match=r"was (cancelled|skipped)"):
        asked.get(timeout=1)


def test_what_retention_deleted_before_it_was_reported_is_reported_as_gone(plus_one: Any, run: Any) -> None:
    plus_one.apply_async((1,), task_id="mine")
    Execution.objects.all().delete()
    canvas_calls.look()
    run()
    with pytest.raises(NoSuchExecution, match=r"shop\.plus_one/mine: there is no such execution"):
        result_of(AsyncResult("mine"))


def test_a_process_that_dies_while_it_notifies_leaves_it_to_the_tick(
    plus_one: Any, run: Any, perform_all: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = chain(plus_one.s(1), plus_one.s()).apply_async()
    perform_all()
    with monkeypatch.context() as dying:
        dying.setattr(celery_results, "_notify_of", Mock(side_effect=ConnectionResetError))
        housekeeping.tick()
    assert asked.status == "PENDING"
    housekeeping.tick()
    assert Execution.objects.count() == 1, "reported before the claim of the dead process had ended"
    CanvasCall.objects.update(claimed_until=CanvasCall.objects.get().claimed_until - canvas_calls.CLAIM)
    housekeeping.tick()
    run()
    assert asked.get(timeout=1) == 3


def test_a_call_that_comes_again_after_its_report_calls_nothing_again(plus_one: Any, run: Any) -> None:
    for _ in range(2):
        plus_one.apply_async((1,), task_id="mine", link=plus_one.s())
        run()
    assert Execution.objects.count() == 2


def test_what_was_reported_is_forgotten_after_a_day(plus_one: Any, run: Any) -> None:
    plus_one.apply_async((1,), task_id="mine")
    run()
    assert housekeeping.prune()["canvas_calls"] == 0
    CanvasCall.objects.update(notified_at=CanvasCall.objects.get().notified_at - timedelta(days=1, seconds=1))
    assert housekeeping.prune()["canvas_calls"] == 1


def test_a_refused_part_of_a_group_fails_alone_and_the_others_are_enqueued(plus_one: Any, run: Any) -> None:
    asked = group(plus_one.s(1), plus_one.s("one", "too many"), plus_one.s(2)).apply_async()
    run()
    assert [AsyncResult(each.id).status for each in asked.results] == ["SUCCESS", "FAILURE", "SUCCESS"]
    with pytest.raises(BadInput, match=r"shop\.plus_one"):
        asked.get(timeout=1)


def test_what_celerys_worker_calls_next_is_refused_by_its_result(plus_one: Any, run: Any) -> None:
    text = declare("text", text_of)
    typed = declare("typed", typed_plus_one)
    asked = chain(text.s(2), typed.s(), plus_one.s()).apply_async()
    run()
    with pytest.raises(BadInput, match="number"):
        asked.get(timeout=1)


def test_what_the_caller_asks_for_first_is_refused_to_the_caller(plus_one: Any) -> None:
    with pytest.raises(BadInput):
        chain(plus_one.s(1, 2, 3), plus_one.s()).apply_async()
    with pytest.raises(BadInput, match="bytes"):
        plus_one.apply_async((1,), link=plus_one.si("x" * 70_000))
    assert not Execution.objects.exists()
    assert not CanvasCall.objects.exists()


def test_a_rollback_takes_back_what_was_to_be_reported(plus_one: Any) -> None:
    with transaction.atomic():
        chain(plus_one.s(1), plus_one.s()).apply_async()
        transaction.set_rollback(True)
    assert not CanvasCall.objects.exists()


def test_calls_that_are_one_execution_all_have_its_result(run: Any) -> None:
    rows = declare("rows", twice, unique=Unique(keys=["host"]))
    named = declare("named", twice, unique="of {host}")
    asked = [group(task.s("a"), task.s("a")).apply_async() for task in (rows, named)]
    run()
    assert [each.get(timeout=1) for each in asked] == [["aa", "aa"], ["aa", "aa"]]
    assert Execution.objects.count() == 2


def test_a_task_that_keeps_no_result_hands_it_on_all_the_same(plus_one: Any, run: Any) -> None:
    silent = declare("silent", refuse_seven, ignore_result=True)
    asked = chain(silent.s(1), plus_one.s()).apply_async()
    run()
    assert asked.get(timeout=1) == 3


def test_a_message_of_the_plain_task_continues_with_its_chain(plus_one: Any, run: Any) -> None:
    """As it was sent before the task became a queued one."""
    following = plus_one.s().set(task_id="last")
    plus_one.push_request(
        id="old", called_directly=False, args=(1,), kwargs={}, chain=[dict(following)], root_id="old"
    )
    try:
        plus_one(1)
    finally:
        plus_one.pop_request()
    run()
    assert [result_of(AsyncResult(name)) for name in ("old", "last")] == [2, 3]


def test_without_a_result_backend_chains_continue(
    plus_one: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(plus_one._get_current_object()), "_backend", DisabledBackend(plus_one.app))
    chain(plus_one.s(1), plus_one.s()).apply_async()
    plus_one.apply_async((5,), task_id="mine")
    assert not CanvasCall.objects.filter(task_id="mine").exists()
    run()
    assert sorted(Execution.objects.values_list("result", flat=True)) == [2, 3, 6]


def test_in_eager_mode_all_of_it_runs_at_once(
    plus_one: Any, total: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(current_app.conf, "task_always_eager", True)
    assert chain(plus_one.s(1), plus_one.s()).apply_async().get() == 3
    assert group(plus_one.s(1), plus_one.s(2)).apply_async().get() == [2, 3]
    assert chord([plus_one.s(1), plus_one.s(2)], total.s()).apply_async().get() == 5
    called: list[int] = []

    def remember(number: int) -> None:
        called.append(number)

    note = declare("note", remember)
    plus_one.apply_async((1,), link=note.s())
    assert called == [2]
    assert not Execution.objects.exists()
