"""Whatever an application holds or waits for, decisions about all other work continue."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from queuemgr.base import own_connection, scheduler_lock
from queuemgr.flows import flow
from queuemgr.flows.flow import HIGH, NewExecution
from queuemgr.lifecycle import dispatch as dispatching
from queuemgr.lifecycle import lease_locks, states
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Batch, BulkAction, Execution, Lease, Queue, Route, State
from queuemgr.operations import batches, bulk, executions, placing
from queuemgr.operations.bulk import chunk
from tests.integration.operations.batch_fixtures import ANN, made
from tests.integration.operations.bulk_fixtures import carried_out, started

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.only_on("postgres", why="on SQLite every transaction waits for the one that writes"),
]

HELD_SECONDS = 1.5
"""How long an application holds what it holds; a decision that waits for it takes so long."""
WATCHED_SECONDS = 0.8
MOST_SECONDS = 0.65
"""The longest a decision may be kept waiting; on a busy machine a thread alone may sleep for a while."""


def execution(key: str) -> Execution:
    return Execution.objects.get(key=key)


def end(key: str, state: State, **columns: Any) -> None:
    Lease.objects.filter(execution__key=key).delete()
    Execution.objects.filter(key=key).update(state=state, finished_at=timezone.now(), route=None, **columns)


# What the application does meanwhile: each runs in a transaction that stays open.


def adds_to_a_batch() -> None:
    batches.add(Batch.objects.get(), [NewExecution("late")])


def enqueues() -> None:
    enqueue("probe", "late")


def enqueues_the_first_of_a_kind() -> None:
    enqueue("probe", "late", {"limit_key": "new:key"})


def nothing() -> None:
    pass


# What was there before, and what somebody does while the application is at it.


def one_that_failed() -> None:
    enqueue("probe", "one")
    end("one", State.FAILED)


def failed_member_of_a_fail_fast_batch() -> None:
    """Whose failure no decision has seen yet."""
    batch = made(keys="one two", fail_fast=True)
    with transaction.atomic():
        dispatching.wakeups.post(batches=[batch.pk])
        end("one", State.FAILED, error_kind="x")


def a_window() -> None:
    made(keys="one two three", window=2)


def a_batch() -> None:
    made(keys="one two three")


def ends_and_starts_again() -> None:
    """In one transaction its row is written twice, so that its batch is looked up at the commit."""
    with scheduler_lock.hold_scheduler_lock() as lock:
        members = list(Execution.objects.filter(key__in=("one", "two")).values_list("pk", flat=True))
        for state in (State.CANCELLED, State.WAITING):
            states.move(members, state, finished_at=None if state == State.WAITING else lock.now)


def a_bulk_action() -> None:
    enqueue("probe", "one")
    started("priority", {"flow": "probe"}, arguments={"priority": "high"})


def a_cap() -> None:
    for queue in Queue.objects.all():
        queue.max_pending = 1000
        queue.save()


@dataclass(frozen=True)
class Case:
    name: str
    before: Callable[[], object]
    application: Callable[[], object]
    """What the application does in a transaction that it keeps open."""
    act: Callable[[], object] = nothing
    """What somebody does meanwhile, and may have to wait with."""


CASES = [
    Case("a first failure while members are added", failed_member_of_a_fail_fast_batch, adds_to_a_batch),
    Case("members added within a window", a_window, adds_to_a_batch),
    Case("a batch cancelled while members are added", a_batch, adds_to_a_batch,
         lambda: batches.cancel(Batch.objects.get(), ANN)),
    Case("a member started again while members are added", a_batch, adds_to_a_batch, ends_and_starts_again),
    Case("a bulk action stopped", a_bulk_action, lambda: bulk.stop(BulkAction.objects.get().pk, ANN),
         lambda: chunk.change_next(BulkAction.objects.get().pk)),
    Case("the first work of a kind", one_that_failed, enqueues_the_first_of_a_kind,
         lambda: executions.retry_with_payload(execution("one"), {"limit_key": "new:key"}, ANN)),
    Case("work enqueued into a queue with a cap", a_cap, enqueues, lambda: enqueue("probe", "other")),
]  # fmt: skip


@contextmanager
def another_thread(act: Callable[[], object]) -> Iterator[None]:
    """Run this in a thread with a connection of its own, and wait for its end."""
    failed: list[Exception] = []

    def run() -> None:
        try:
            act()
        except Exception as error:
            failed.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join(timeout=20)
    assert not thread.is_alive() and not failed


@contextmanager
def an_open_transaction(act: Callable[[], object]) -> Iterator[None]:
    """Where this was done, and that ends after a while in any case."""
    done, over = threading.Event(), threading.Event()

    def run() -> None:
        with transaction.atomic():
            act()
            done.set()
            over.wait(HELD_SECONDS)

    with another_thread(run):
        assert done.wait(10)
        try:
            yield
        finally:
            over.set()


def longest_wait_of_a_decision() -> float:
    """How long none was made in the time watched, in seconds."""
    longest, last = 0.0, time.monotonic()
    until = last + WATCHED_SECONDS
    while (now := time.monotonic()) < until:
        decided = dispatching.grant_leases() is not None
        longest = max(longest, time.monotonic() - last)
        if decided:
            last = time.monotonic()
        time.sleep(0.005)
    return max(longest, now - last)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_decision_waits_for_a_transaction_of_the_application(
    case: Case, make_worker: Callable[..., Any], sent: list[Any]
) -> None:
    make_worker(slots=3)
    case.before()
    with an_open_transaction(case.application), another_thread(case.act):
        assert longest_wait_of_a_decision() < MOST_SECONDS


def test_nobody_waits_for_a_transaction_that_enqueued_the_first_work_of_a_kind() -> None:
    """Nor is the route gone when that transaction is rolled back."""

    def roll_back() -> None:
        enqueues_the_first_of_a_kind()
        transaction.set_rollback(True)

    with an_open_transaction(roll_back):
        began = time.monotonic()
        enqueue("probe", "same kind", {"limit_key": "new:key"})
        assert time.monotonic() - began < MOST_SECONDS
    assert [str(one) for one in Execution.objects.all()] == ["probe/same kind"]


@pytest.mark.parametrize("hinders", ["a lock on the table", "snapshots of its own", "no connection"])
def test_where_a_route_cannot_be_inserted_beside_a_transaction_it_is_inserted_in_it(
    hinders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_connection, "LOCK_WAIT", "50ms")
    with transaction.atomic():
        if hinders == "a lock on the table":
            connection.cursor().execute("LOCK TABLE queuemgr_route IN EXCLUSIVE MODE")
        elif hinders == "snapshots of its own":
            connection.cursor().execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            assert not own_connection.is_needed()
        else:
            monkeypatch.setitem(connection.settings_dict, "PORT", "1")
        assert enqueue("probe", "one", {"limit_key": "new:key"})
        transaction.set_rollback(True)
    assert not Route.objects.filter(limit_keys="new:key").exists()


def test_a_batch_whose_first_failure_found_members_being_added_is_cancelled_after_that(
    make_worker: Callable[..., Any], sent: list[Any]
) -> None:
    failed_member_of_a_fail_fast_batch()
    with an_open_transaction(adds_to_a_batch):
        dispatching.dispatch()
        assert Batch.objects.get().cancelled_at is None
    dispatching.dispatch()
    assert Batch.objects.get().cancelled_because == "one failed: x"
    assert execution("late").state == State.CANCELLED


def test_members_added_while_the_window_moved_past_their_place_start() -> None:
    """The window is read without the scheduler lock: a decision after the commit corrects it."""
    batch = made(keys="one two", window=2)
    with an_open_transaction(lambda: batches.add(batch, [NewExecution("three")])):
        end("one", State.DONE)
        end("two", State.DONE)
        dispatching.wakeups.post(batches=[batch.pk])
        dispatching.dispatch()
    assert execution("three").run_after is not None


# Actions on executions: rules of flows take their time, and steps store their results.


def carry_out(name: str, filters: dict[str, Any], **more: Any) -> int:
    return carried_out(started(name, filters, **more)).changed


ALL: dict[str, Any] = {"flow": "probe"}
ACTIONS: dict[str, Callable[[Execution], int]] = {
    "retry": lambda one: executions.retry([one], ANN),
    "retry from start": lambda one: executions.retry_from_start([one], ANN),
    "retry with payload": lambda one: executions.retry_with_payload(one, {"limit_key": "host:b"}, ANN),
    "set priority": lambda one: executions.set_priority([one], HIGH, ANN),
    "reschedule": lambda one: executions.set_run_after([one], timezone.now() + timedelta(hours=1), ANN),
    "cancel": lambda one: executions.cancel([one], ANN),
    "skip": lambda one: executions.skip([one], ANN),
    "retry in bulk": lambda one: carry_out("retry", ALL),
    "retry from start in bulk": lambda one: carry_out("retry_from_start", ALL),
    "priority in bulk": lambda one: carry_out("priority", ALL, arguments={"priority": "high"}),
    "cancel in bulk": lambda one: carry_out("cancel", ALL),
}
RETRIES = [name for name in ACTIONS if name.startswith("retry")]
OTHERS = [name for name in ACTIONS if name not in RETRIES]


@pytest.fixture
def slow_rules(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Once it is set, every rule of the probe's steps takes a second."""
    slow, probe = threading.Event(), flow.get_flow("probe")

    def slowly(rule: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def ask(context: Any) -> Any:
            if slow.is_set():
                slow.clear()
                time.sleep(1)
            return rule(context)

        return ask

    phases = [
        replace(phase, steps=tuple(replace(step, key=slowly(step.key)) for step in phase.steps))
        for phase in probe.phases
    ]
    monkeypatch.setitem(flow._flows, "probe", replace(probe, phases=tuple(phases)))
    return slow


@pytest.mark.parametrize("name", [*RETRIES, "set priority", "priority in bulk"])
def test_no_decision_waits_for_a_rule_of_a_flow(
    name: str, make_worker: Callable[..., Any], slow_rules: threading.Event, sent: list[Any]
) -> None:
    enqueue("probe", "one", {"limit_key": "host:a"})
    make_worker(slots=3, queues=[])
    if name in RETRIES:
        end("one", State.FAILED)
    changed: list[int] = []
    slow_rules.set()
    with another_thread(lambda: changed.append(ACTIONS[name](execution("one")))):
        assert longest_wait_of_a_decision() < MOST_SECONDS
    assert changed == [1]


@pytest.mark.parametrize("name", OTHERS)
def test_no_decision_waits_for_a_store_that_began_while_an_action_waited_for_the_lock(
    name: str, played: Callable[..., Any], sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The action waits for its end without the lock, and then changes what may still be changed."""
    enqueue("probe", "one")
    worker, real_acquire, storing = played(), scheduler_lock.acquire, ExitStack()

    def begin_to_store() -> None:
        lease_locks.lock_rows([grant.lease_id for grant in worker.begin_all()])

    def acquire_late() -> Any:
        monkeypatch.setattr(scheduler_lock, "acquire", real_acquire)
        with another_thread(lambda: dispatching.dispatch()):
            pass
        storing.enter_context(an_open_transaction(begin_to_store))
        late.set()
        return real_acquire()

    one, late = execution("one"), threading.Event()
    monkeypatch.setattr(scheduler_lock, "acquire", acquire_late)
    with another_thread(lambda: ACTIONS[name](one)):
        assert late.wait(10)
        assert longest_wait_of_a_decision() < MOST_SECONDS
        storing.close()
    if name.startswith("cancel"):
        assert Lease.objects.get().cancel_requested_by


def test_what_changed_after_its_rules_were_asked_is_asked_about_again(
    sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue("probe", "one", {"limit_key": "host:a"})
    ask = placing.ask

    def ask_too_early(*given: Any) -> Any:
        monkeypatch.setattr(placing, "ask", ask)
        answers = ask(*given)
        Execution.objects.update(context={"limit_key": "host:b"})
        return answers

    monkeypatch.setattr(placing, "ask", ask_too_early)
    assert executions.set_priority([execution("one")], HIGH, ANN) == 1
    route = execution("one").route
    assert route and (route.limit_keys, route.priority) == ("host:b", HIGH)
