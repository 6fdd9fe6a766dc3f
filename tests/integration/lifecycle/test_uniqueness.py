"""Unique keys: by the database's index, under races, in every state, beside caps, batches, old releases."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from queuemgr.base.errors import BadInput, QueueFull
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import HIGH, LOW, NewExecution
from queuemgr.flows.outcomes import Done, Failed, Result, Skipped
from queuemgr.flows.unique import Unique
from queuemgr.lifecycle import finish
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue, enqueue_many
from queuemgr.lifecycle.finish import Finish
from queuemgr.lifecycle.lease_locks import RowsBusy
from queuemgr.models import Execution, Queue, Route, State, Wakeup, Worker
from queuemgr.operations import batches, executions
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows
from queuemgr.testing.clock import Clock, clock
from tests.integration.conftest import let_time_pass

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sent")]
ANN = Actor("ann", "test", "because")
HOST = ["host"]
RULES = {
    "skip": Unique(keys=HOST),
    "replace": Unique(keys=HOST, on_conflict="replace"),
    "debounce": Unique(keys=HOST, debounce="1h"),
}


def call(key: str, unique: Unique, **payload: Any) -> NewExecution:
    return NewExecution(key, {"host": "a", **payload}, unique=unique)


def later(time: Clock, seconds: float) -> None:
    """So much later, when the worker is still there, a decision is made."""
    time.advance(seconds=seconds)
    Worker.objects.update(seen_at=database_now())
    dispatch()


def one(key: str) -> Execution:
    return Execution.objects.get(key=key)


def end_all(worker: Any) -> None:
    """Run what may start, to its end."""
    dispatch()
    for grant in put_off(worker.begin_all):
        put_off(partial(finish.finish_leases, [Finish(grant.lease_id, Done())], database_now()))


def put_off(act: Callable[[], Any]) -> Any:
    """Do it when nobody has its rows locked, as a worker does."""
    while True:
        with suppress(RowsBusy):
            return act()


@pytest.mark.only_on("postgres", why="needs two connections")
@pytest.mark.parametrize("rule", RULES)
def test_of_calls_racing_each_other_one_is_stored_and_all_find_it(
    rule: str, in_threads: Callable[..., list[Any]]
) -> None:
    enqueue("probe", "route", {"host": "a"})

    def race(number: int) -> Any:
        return enqueue_many("probe", [call(f"k{number}", RULES[rule], number=number)])

    for _ in range(5):
        done = in_threads(6, race)
        held = Execution.objects.get(unique_key='host="a"')
        assert [each.new for each in done].count(1) == 1
        keys = [each.instead.get(f"k{number}", f"k{number}") for number, each in enumerate(done)]
        assert set(keys) == {held.key}
        held.delete()


@pytest.mark.only_on("postgres", why="needs two connections")
@pytest.mark.parametrize("rule", RULES)
def test_calls_racing_with_the_end_of_what_holds_their_key_are_stored_or_find_who_holds_it(
    rule: str, played: Callable[..., Any], in_threads: Callable[..., list[Any]]
) -> None:
    """The holder goes between the insert that found it and the look who it is."""
    worker, calls = played(slots=50), 60
    unique = Unique(keys=HOST, on_conflict=rule, debounce=0.001 if rule == "debounce" else None)

    def race(number: int) -> None:
        for n in range(calls):
            if number == 0:
                end_all(worker)
            else:
                key = f"k{number}-{n}"
                done = enqueue_many("probe", [call(key, unique, number=n)])
                assert Execution.objects.filter(key=done.instead.get(key, key)).exists()
                assert done.new + done.already == 1

    in_threads(4, race)
    assert Execution.objects.exclude(unique_key=None).count() <= 1
    end_all(worker)
    assert not Execution.objects.exclude(unique_key=None).exclude(state="waiting").exists()


@pytest.mark.slow_proof
@pytest.mark.only_on("postgres", why="needs two connections")
def test_many_calls_of_many_keys_in_any_order_find_each_other_and_never_wait_in_a_circle(
    played: Callable[..., Any], in_threads: Callable[..., list[Any]]
) -> None:
    hosts, worker = "abcdefgh", played(slots=50)
    rules = [Unique(keys=HOST), Unique(keys=HOST, on_conflict="replace"), Unique(keys=HOST, debounce=0.001)]
    rules.append(Unique(keys=HOST, states="all", within=0.05))

    def race(number: int) -> None:
        choose = random.Random(number)
        for n in range(150):
            if number == 0:
                end_all(worker)
                continue
            chosen, unique = choose.choices(hosts, k=6), choose.choice(rules)
            calls = {f"k{number}-{n}-{place}": host for place, host in enumerate(chosen)}
            new = [NewExecution(key, {"host": host}, unique=unique) for key, host in calls.items()]
            done = enqueue_many("probe", new)
            assert done.new + done.already == len(calls)
            there = {done.instead.get(key, key): host for key, host in calls.items()}
            rows = Execution.objects.filter(key__in=there).values_list("key", "payload")
            assert {key: payload["host"] for key, payload in rows} == there

    in_threads(5, race)
    held = list(Execution.objects.exclude(unique_key=None).values_list("unique_key", flat=True))
    assert len(held) == len(set(held)) <= len(hosts)


@pytest.mark.parametrize(
    ("states", "ends"),
    [
        ("waiting", {"begun", "done", "failed", "skipped", "cancelled", "retried"}),
        ("waiting_or_running", {"done", "failed", "skipped", "cancelled"}),
        ("all", set[str]()),
    ],
)
@pytest.mark.parametrize("how", ["waits", "begun", "done", "failed", "skipped", "cancelled", "retried"])
def test_a_unique_key_is_held_in_the_states_that_count_and_in_no_other(
    states: str, ends: set[str], how: str, played: Callable[..., Any]
) -> None:
    unique = Unique(keys=HOST, states=states)
    results: dict[str, Result] = {
        "done": Done(), "failed": Failed("not_found", "404"), "skipped": Skipped("no"),
        "retried": Failed("network", "refused"),
    }  # fmt: skip
    worker = played()
    if how in ("waits", "cancelled"):
        enqueue("probe", "first", {"host": "a"}, unique=unique, run_after=database_now() + timedelta(hours=1))
    else:
        enqueue("probe", "first", {"host": "a"}, unique=unique)
    grants = worker.begin_all()
    if how in results:
        worker.end(grants[0], results[how])
    if how == "cancelled":
        executions.cancel([one("first")], ANN)
    assert enqueue("probe", "second", {"host": "a"}, unique=unique) == (how in ends)
    assert enqueue("probe", "other", {"host": "b"}, unique=unique), "it is of the key alone"


def test_an_execution_that_waits_again_does_not_take_its_unique_key_back(played: Callable[..., Any]) -> None:
    """Another may hold it by then, and an end must never fail for that."""
    unique, worker = Unique(keys=HOST), played()
    enqueue("probe", "first", {"host": "a"}, unique=unique)
    worker.end(worker.begin_all()[0], Failed("not_found", "404"))
    assert enqueue("probe", "second", {"host": "a"}, unique=unique)
    assert executions.retry([one("first")], ANN) == 1
    assert (one("first").unique_key, one("second").unique_key) == (None, 'host="a"')


def test_a_unique_key_is_held_no_longer_than_its_window() -> None:
    unique = Unique(keys=HOST, states="all", within="1h")
    with clock() as time:
        assert enqueue("probe", "first", {"host": "a"}, unique=unique)
        time.advance(minutes=59)
        assert not enqueue("probe", "second", {"host": "a"}, unique=unique)
        time.advance(minutes=2)
        assert enqueue("probe", "third", {"host": "a"}, unique=unique)
        assert not enqueue("probe", "fourth", {"host": "a"}, unique=unique)
    assert (one("first").unique_key, one("third").unique_key) == (None, 'host="a"')


def test_what_a_worker_of_an_earlier_release_ended_does_not_hold_its_unique_key() -> None:
    """It knows no unique keys, so that it leaves them in the rows it moves."""
    enqueue("probe", "first", {"host": "a"}, unique=Unique(keys=HOST))
    Execution.objects.update(state=State.DONE, finished_at=database_now())
    assert enqueue("probe", "second", {"host": "a"}, unique=Unique(keys=HOST))


def test_the_same_unique_key_in_two_flows_is_two_executions() -> None:
    assert enqueue("probe", "k", {"host": "a"}, unique=Unique(keys=HOST))
    assert enqueue("papers", "k", {"host": "a", "kind": "url"}, unique=Unique(keys=HOST))


def test_a_call_whose_unique_key_is_held_is_not_refused_by_a_full_queue() -> None:
    limit_rows.sync()
    enqueue("probe", "first", {"host": "a"}, priority=LOW, unique=Unique(keys=HOST))
    Queue.objects.filter(name="prep.low").update(max_pending=1)
    assert not enqueue("probe", "second", {"host": "a"}, priority=LOW, unique=Unique(keys=HOST))
    with pytest.raises(QueueFull):
        enqueue("probe", "third", {"host": "b"}, priority=LOW, unique=Unique(keys=HOST))


def test_many_calls_at_once_are_what_they_would_be_one_after_another() -> None:
    replace, skip = RULES["replace"], RULES["skip"]
    done = enqueue_many(
        "probe",
        [
            call("a1", replace, n=1), NewExecution("plain"), call("a2", replace, n=2), call("a3", skip, n=3),
            NewExecution("b1", {"host": "b"}, unique=skip), NewExecution("plain"),
        ],
    )  # fmt: skip
    assert (done.new, done.already) == (3, 3)
    assert done.instead == {"a2": "a1", "a3": "a1"}
    assert one("a1").payload["n"] == 2
    done = enqueue_many("probe", [call("a4", replace, n=4), call("a5", replace, n=5)])
    assert (done.new, done.instead, one("a1").payload["n"]) == (0, {"a4": "a1", "a5": "a1"}, 5)


def test_replacing_gives_what_waits_the_new_work_and_its_place_in_the_new_queue(
    played: Callable[..., Any], sent: list[Any]
) -> None:
    limit_rows.sync()
    enqueue("probe", "first", {"host": "a"}, priority=LOW, unique=RULES["replace"])
    first, worker = one("first"), played(slots=1, queues=["expensive.high"])
    assert not sent, "nobody serves its queue"
    new = {"host": "a", "phase": "expensive", "n": 2}
    assert not enqueue("probe", "second", new, priority=HIGH, unique=RULES["replace"])
    (grant,) = worker.begin_all()
    assert (grant.key, grant.payload, grant.phase) == ("first", new, "expensive")
    row = one("first")
    assert (row.priority, row.phase, row.created_at) == (HIGH, "expensive", first.created_at)
    assert Route.objects.get(pk=first.route_id).phase == "prep"


def test_replacing_again_and_again_does_not_put_it_at_the_end_of_its_queue() -> None:
    later = database_now() + timedelta(hours=1)
    enqueue("probe", "first", {"host": "a"}, unique=RULES["replace"])
    due = one("first").run_after
    enqueue("probe", "second", {"host": "a"}, unique=RULES["replace"])
    assert one("first").run_after == due
    enqueue("probe", "third", {"host": "a"}, unique=RULES["replace"], run_after=later)
    assert one("first").run_after == later
    enqueue("probe", "fourth", {"host": "a"}, unique=RULES["replace"])
    assert due < one("first").run_after < later


def test_what_has_begun_is_not_replaced_though_it_waits_again(played: Callable[..., Any]) -> None:
    unique = Unique(keys=HOST, states="waiting_or_running", on_conflict="replace")
    worker = played()
    enqueue("probe", "first", {"host": "a", "n": 1}, unique=unique)
    (grant,) = worker.begin_all()
    assert not enqueue("probe", "second", {"host": "a", "n": 2}, unique=unique)
    worker.end(grant, Failed("network", "refused"))
    assert not enqueue("probe", "third", {"host": "a", "n": 3}, unique=unique)
    assert one("first").payload["n"] == 1


def test_what_is_debounced_runs_once_it_has_been_quiet_with_the_newest_payload(
    played: Callable[..., Any],
) -> None:
    unique, worker = Unique(keys=HOST, debounce="30s"), played()
    with clock() as time:
        for n in range(4):
            enqueue("probe", f"k{n}", {"host": "a", "n": n}, unique=unique)
            later(time, 20)
            assert not worker.begin_all()
        later(time, 11)
        (grant,) = worker.begin_all()
        assert grant.payload == {"host": "a", "n": 3}
        assert enqueue("probe", "next", {"host": "a"}, unique=unique), "what comes while it runs is another"


def test_what_is_debounced_is_put_off_no_longer_than_at_most() -> None:
    unique = Unique(keys=HOST, debounce="30s", at_most="1m")
    with clock() as time:
        enqueue("probe", "first", {"host": "a"}, unique=unique)
        for n in range(5):
            time.advance(seconds=20)
            enqueue("probe", f"k{n}", {"host": "a"}, unique=unique)
    first = one("first")
    assert first.run_after == first.created_at + timedelta(minutes=1)


def test_what_is_debounced_has_no_other_time_and_is_no_member_of_a_batch() -> None:
    with pytest.raises(BadInput, match="what is debounced runs once it has been quiet"):
        enqueue("probe", "k", {"host": "a"}, unique=RULES["debounce"], run_after=database_now())
    batch = batches.open_batch("b", "probe", ANN)
    for rule in ("debounce", "replace"):
        with pytest.raises(BadInput, match="cannot be debounced nor replaced"):
            batches.add(batch, [call("k", RULES[rule])])


def test_members_of_a_batch_are_numbered_without_those_whose_unique_key_is_held() -> None:
    unique = RULES["skip"]
    enqueue("probe", "outside", {"host": "b"}, unique=unique)
    batch = batches.open_batch("b", "probe", ANN)
    hosts = {"a1": "a", "a2": "a", "b1": "b", "c1": "c"}.items()
    done = batches.add(batch, [NewExecution(key, {"host": host}, unique=unique) for key, host in hosts])
    assert (done.new, done.already, done.outside_batch) == (2, 2, 1)
    assert done.instead == {"a2": "a1", "b1": "outside"}
    members = batch.executions.order_by("batch_seq").values_list("key", "batch_seq")
    assert list(members) == [("a1", 0), ("c1", 1)]


def test_a_transaction_that_is_rolled_back_leaves_the_unique_key_to_others() -> None:
    with pytest.raises(KeyError), transaction.atomic():
        enqueue("probe", "first", {"host": "a"}, unique=RULES["skip"])
        raise KeyError
    assert enqueue("probe", "second", {"host": "a"}, unique=RULES["skip"])


def test_what_waits_for_a_retry_keeps_its_unique_key_where_running_counts(played: Callable[..., Any]) -> None:
    unique, worker = Unique(keys=HOST), played()
    enqueue("probe", "first", {"host": "a"}, unique=unique)
    worker.end(worker.begin_all()[0], Failed("network", "refused"))
    let_time_pass(Execution.objects.all())
    assert not enqueue("probe", "second", {"host": "a"}, unique=unique)


def statements_of(call: Callable[[], Any]) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        call()
    return [query["sql"] for query in captured]


@pytest.mark.parametrize("rule", RULES)
def test_no_call_costs_a_statement_more_than_one_without_a_unique_key(rule: str) -> None:
    """And none that finds another wakes what decides: nothing may start that could not before."""
    enqueue("probe", "route", {"host": "a"})
    plain = len(statements_of(lambda: enqueue("probe", "plain", {"host": "a"})))
    stored = statements_of(lambda: enqueue("probe", "first", {"host": "a"}, unique=RULES[rule]))
    wakeups = Wakeup.objects.count()
    found = statements_of(lambda: enqueue("probe", "second", {"host": "a"}, unique=RULES[rule]))
    assert len(stored) <= plain
    assert len(found) <= plain
    assert Wakeup.objects.count() == wakeups
