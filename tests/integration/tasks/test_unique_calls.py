"""Tasks with a `Unique`: which call a handle is, in and out of transactions, whoever enqueues it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from celery import shared_task
from django.db import transaction

from queuemgr import ConfigurationError, NoSuchExecution, QueuedTask, Unique, enqueue_many, queued
from queuemgr.flows.flow import NewExecution
from queuemgr.models import Execution

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("declaring", "sent")]
Perform = Callable[..., int]


def declare(unique: Any = None, name: str = "shop.send") -> Any:
    @queued(name=name, unique=unique or Unique(keys=["host"]))
    def send(host: str, count: int = 1, day: dt.date = dt.date(2026, 1, 1)) -> str:
        return host * count

    return send


def stored() -> int:
    return Execution.objects.count()


def test_a_further_call_is_the_call_that_waits_or_runs(perform_all: Perform) -> None:
    send = declare()
    first, second, other = send.enqueue("a", count=2), send.enqueue("a", count=3), send.enqueue("b")
    assert first == second != other
    assert stored() == 2
    assert perform_all() == 2
    assert second.result() == "aa"
    assert send.enqueue("a") != first, "it has ended"


def test_many_calls_at_once_have_the_handles_they_would_have_one_by_one() -> None:
    send = declare()
    held = send.enqueue("a")
    handles = send.enqueue_many([{"host": host} for host in "abba"])
    assert handles == [held, handles[1], handles[1], held]
    assert stored() == 2


def test_a_default_counts_as_the_same_value_stated() -> None:
    send = declare(Unique(keys=["host", "day"]))
    assert (
        send.enqueue("a") == send.enqueue("a", day=dt.date(2026, 1, 1)) != send.enqueue("a", day=dt.date.max)
    )
    alike = declare(Unique(), "shop.alike")
    assert alike.enqueue("c", 1) == alike.enqueue("c") != alike.enqueue("c", 2)


def test_the_handle_of_a_call_in_a_transaction_is_the_call_there_is_once_it_commits() -> None:
    send = declare()
    held = send.enqueue("a")
    with transaction.atomic():
        again, new, twice = send.enqueue("a"), send.enqueue("b"), send.enqueue("b")
        assert stored() == 1, "all are inserted by the commit"
    assert stored() == 2
    assert (again, new) == (held, twice)
    assert send.handle(new.key).status == "waiting"


def test_whoever_reads_its_key_in_the_transaction_reads_that_of_the_call_there_is() -> None:
    """As to store it in a row of the application."""
    send = declare()
    held = send.enqueue("a")
    with transaction.atomic():
        again, new = send.enqueue("a"), send.enqueue("b")
        assert repr(new).startswith("UniqueHandle(flow='shop.send', key=")
        assert stored() == 1, "to look at it inserts nothing"
        read = [again.key, new.key]
        assert stored() == 2
    assert read == [held.key, new.key]
    assert {read[0], read[1]} == set(Execution.objects.values_list("key", flat=True))


def test_a_call_of_a_transaction_that_is_rolled_back_is_no_call() -> None:
    send = declare()
    with pytest.raises(KeyError), transaction.atomic():
        handle = send.enqueue("a")
        raise KeyError
    with pytest.raises(NoSuchExecution):
        _ = handle.status
    assert send.enqueue("a").status == "waiting"


def test_a_call_that_was_inserted_in_a_savepoint_which_is_taken_back_is_inserted_again() -> None:
    send = declare()
    with transaction.atomic():
        call = send.enqueue("a")
        with pytest.raises(KeyError), transaction.atomic():
            assert call.status == "waiting"
            raise KeyError
        assert stored() == 0
    assert stored() == 1
    assert call.status == "waiting"


def test_the_newest_of_the_calls_in_a_transaction_is_what_runs(perform_all: Perform) -> None:
    send = declare(Unique(keys=["host"], on_conflict="replace"))
    with transaction.atomic():
        calls = [send.enqueue("a", count=count) for count in (1, 2, 3)]
    assert perform_all() == 1
    assert {call.result() for call in calls} == {"aaa"}


def test_a_celery_task_is_unique_too(perform_all: Perform) -> None:
    @shared_task(base=QueuedTask, name="shop.index", unique=Unique(keys=["index"]))
    def index(index: str, **more: int) -> str:
        return index

    first, second = index.delay("books"), index.delay("books", full=1)
    assert first == second
    assert perform_all() == 1


def test_work_of_a_task_is_unique_whoever_enqueues_it() -> None:
    """By command and API its flow is enqueued, with a key of the caller's."""
    send = declare()
    held = send.enqueue("a")
    done = enqueue_many(
        "shop.send", [NewExecution("mine", {"host": "a"}), NewExecution("new", {"host": "b"})]
    )
    assert (done.new, done.instead) == (1, {"mine": held.key})


def test_a_unique_that_names_no_parameter_is_refused_where_it_is_declared() -> None:
    with pytest.raises(ConfigurationError, match=r"Unique names hosts; its parameters: host, count, day"):
        declare(Unique(keys=["hosts"]))


def test_a_text_still_makes_the_key_of_a_call_which_is_one_execution_for_ever(perform_all: Perform) -> None:
    send = declare("mail:{host}")
    first = send.enqueue("a")
    assert perform_all() == 1
    assert send.enqueue("a") == first
    assert perform_all() == 0
