"""Whatever an application holds or waits for, decisions about all other work go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from queuemgr.flows.flow import NewExecution
from queuemgr.lifecycle import dispatch as dispatching
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Batch, Execution, Queue, State
from queuemgr.operations import batches
from tests.integration.operations.batch_fixtures import ANN, made

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.only_on("postgres", why="on SQLite every transaction waits for the one that writes"),
]

HELD_SECONDS = 1.5
"""How long an application holds what it holds; a decision that waits for it takes so long."""
WATCHED_SECONDS = 0.5
MOST_SECONDS = 0.4
"""The longest a decision may be kept waiting; on a busy machine a thread alone may sleep for a while."""


def execution(key: str) -> Execution:
    return Execution.objects.get(key=key)


def end(key: str, state: State, **columns: Any) -> None:
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


def nothing_before() -> None:
    pass


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
