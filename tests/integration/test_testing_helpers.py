"""`queuemgr.testing`: what an application's tests do, in each kind of test case Django has."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import shared_task
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase
from django.utils import timezone

from queuemgr import Done, LeasedTask, QueuedTask, Skipped, StepFailed, TaskFailed, Work, current_work, queued
from queuemgr.flows.outcomes import Failed
from queuemgr.models import Attempt, Execution, Limit, Route, Worker
from queuemgr.scheduling import limit_rows
from queuemgr.testing import (
    assert_enqueued,
    assert_not_enqueued,
    call_step,
    called_work,
    clock,
    enqueued,
    run_due,
)
from tests.integration.tasks.conftest import declaring  # noqa: F401  a fixture

pytestmark = pytest.mark.usefixtures("declaring")


def declare() -> dict[str, Any]:
    """Tasks whose calls a test sees."""
    seen: list[str] = []

    @queued(name="shop.send", limits={"host:{host}": 1}, retries=1)
    def send(host: str, when: datetime | None = None) -> str:
        seen.append(host)
        if host == "broken":
            raise ConnectionError(host)
        return host.upper()

    @queued(name="shop.fan_out")
    def fan_out(number: int) -> None:
        for one in range(number):
            send.enqueue(f"h{one}")

    return {"seen": seen, "send": send, "fan_out": fan_out}


class AnyCase:
    """What holds in every kind of test case."""

    def test_what_is_due_runs_with_what_it_enqueues(self) -> None:
        made = declare()
        made["fan_out"].enqueue(3)
        assert [ran.flow for ran in run_due()] == ["shop.fan_out", "shop.send", "shop.send", "shop.send"]
        assert made["seen"] == ["h0", "h1", "h2"]
        assert run_due() == []
        assert not Worker.objects.exists()

    def test_no_id_of_a_rolled_back_route_is_remembered(self) -> None:
        self.test_what_is_due_runs_with_what_it_enqueues()

    def test_results_and_errors(self) -> None:
        made = declare()
        good, bad = made["send"].enqueue("a"), made["send"].enqueue("broken")
        run_due()
        assert good.result(timeout=0) == "A"
        assert bad.status == "waiting"
        with clock() as moved:
            moved.advance(hours=1)
            with pytest.raises(ConnectionError, match="broken"):
                run_due()
        assert bad.status == "failed"
        with pytest.raises(TaskFailed, match="ConnectionError"):
            bad.result(timeout=0)

    def test_errors_are_only_recorded_where_a_test_wants_that(self) -> None:
        made = declare()
        made["send"].enqueue("broken")
        with clock() as moved:
            outcomes = [ran.outcome for ran in run_due(raising=False)]
            moved.advance(hours=1)
            outcomes += [ran.outcome for ran in run_due(raising=False)]
        assert outcomes == ["retried", "failed"]

    def test_what_is_enqueued_is_found_by_its_arguments(self) -> None:
        made = declare()
        when = datetime(2026, 1, 1, tzinfo=UTC)
        made["send"].enqueue("a", when=when)
        made["send"].enqueue("b")
        assert_enqueued(made["send"])
        assert_enqueued(made["send"], host="a", when=when, times=1)
        assert_enqueued("shop.send", host="b", times=1)
        assert_not_enqueued(made["send"], host="c")
        assert enqueued(made["send"]) == [{"host": "a", "when": "2026-01-01T00:00:00Z"}, {"host": "b"}]
        with pytest.raises(
            AssertionError, match=r"^a call of shop\.send with \{'host': 'c'\} expected; enqueued: \{"
        ):
            assert_enqueued(made["send"], host="c")
        with pytest.raises(AssertionError, match="3 calls"):
            assert_enqueued(made["send"], times=3)

    def test_time_passes_when_the_test_says_so(self) -> None:
        made = declare()
        made["send"].later(timedelta(hours=2), "a")
        assert run_due() == []
        with clock() as moved:
            before = timezone.now()
            moved.advance(hours=3)
            assert timezone.now() - before >= timedelta(hours=3)
            assert len(run_due()) == 1
        with clock(at=datetime(2030, 1, 1, tzinfo=UTC)):
            assert timezone.now().year == 2030
            made["send"].enqueue("b")
            run_due()
        assert Attempt.objects.latest("pk").started_at.year == 2030
        assert timezone.now().year < 2030

    def test_on_commit_callbacks_that_a_test_runs_do_no_harm(self) -> None:
        made = declare()
        with TestCase.captureOnCommitCallbacks(execute=True), transaction.atomic():
            made["send"].enqueue("a")
        run_due()
        assert made["seen"] == ["a"]

    def test_a_rolled_back_call_is_not_enqueued(self) -> None:
        made = declare()
        with pytest.raises(KeyError), transaction.atomic():
            made["send"].enqueue("a")
            raise KeyError
        assert_not_enqueued(made["send"])


class TestInATestCase(AnyCase, TestCase):
    """Everything is rolled back."""


class TestInATransactionTestCase(AnyCase, TransactionTestCase):
    """Everything is committed, and flushed."""


@pytest.mark.django_db
def test_a_transaction_of_a_test_may_continue_for_as_long_as_it_likes() -> None:
    """Decisions limit how long their transaction may be idle, and wait for locks."""
    made = declare()
    made["send"].enqueue("a")
    run_due()
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SHOW idle_in_transaction_session_timeout")
            assert cursor.fetchone() == ("0",)
            cursor.execute("SHOW lock_timeout")
            assert cursor.fetchone() == ("0",)


@pytest.mark.django_db
def test_limits_hold_and_a_paused_one_holds_work_back() -> None:
    made = declare()
    made["send"].enqueue("a")
    limit_rows.sync()
    Limit.objects.filter(name="host:*").update(paused_at=timezone.now(), paused_by="ann")
    assert run_due() == []


@pytest.mark.django_db
def test_work_that_enqueues_itself_for_ever_is_stopped() -> None:
    @queued(name="shop.again")
    def again() -> None:
        again.enqueue()

    again.enqueue()
    with pytest.raises(RuntimeError, match="5 steps ran, and more is due"):
        run_due(at_most=5)


@pytest.mark.django_db
def test_a_celery_task_that_is_queued_runs_too() -> None:
    def add(x: int, y: int) -> int:
        return x + y

    task: Any = shared_task(base=QueuedTask, name="shop.add")(add)
    handle = task.delay(1, y=2)
    assert_enqueued(task, x=1)
    run_due()
    assert handle.get(timeout=0) == 3
    assert Route.objects.filter(phase="default").exists()
    assert Execution.objects.count() == 1


def print_sheets(work: Work) -> Done:
    if work.inputs.get("jammed"):
        raise StepFailed("jammed", "no paper" if work.is_last_attempt("jammed", 0) else "try again")
    work.record_requests(2)
    assert current_work() is work
    return Done({"printed": work.inputs["sheets"], "key": work.key})


@pytest.fixture
def step() -> Any:
    task: Any = shared_task(base=LeasedTask, name="press.print")(print_sheets)
    return task


def test_a_step_is_called_with_plain_arguments(step: Any) -> None:
    """Without a database."""
    assert call_step(step, {"sheets": 3}, key="order-1") == Done({"printed": 3, "key": "order-1"})
    work = called_work({"sheets": 3}, context={"sheets": 4})
    assert call_step(step, work=work) == Done({"printed": 4, "key": "test"})
    assert work.recorded == [2]


def test_a_step_that_fails_returns_how(step: Any) -> None:
    failed = call_step(step, {"jammed": True})
    assert failed == Failed("jammed", "try again")
    last = call_step(step, work=called_work({"jammed": True}, last_attempt=True))
    assert last == Failed("jammed", "no paper")


def test_a_queued_function_is_called_as_a_step_too() -> None:
    @queued(name="shop.skips")
    def skips(host: str) -> Any:
        return Skipped(host)

    from celery import current_app

    assert call_step(current_app.tasks["shop.skips"], {"host": "a"}) == Skipped("a")


@pytest.mark.django_db
def test_fixtures_for_pytest(request: pytest.FixtureRequest) -> None:
    from queuemgr.testing import fixtures

    made = declare()
    made["send"].later(60, "a")
    run: Callable[..., Any] = fixtures.run_due.__wrapped__()  # type: ignore[attr-defined]  # of pytest
    moving = fixtures.queue_clock.__wrapped__()  # type: ignore[attr-defined]  # of pytest
    moved = next(moving)
    assert run() == []
    moved.advance(minutes=2)
    assert len(run()) == 1
    assert next(moving, None) is None
