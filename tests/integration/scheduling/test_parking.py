"""Parked routes: whatever they are parked on, none waits longer than what stops it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event
from typing import Any

import pytest

from queuemgr.base import transaction
from queuemgr.base.queue_database import connection
from queuemgr.base.scheduler_lock import database_now, hold_scheduler_lock
from queuemgr.flows.flow import NORMAL, all_queues
from queuemgr.flows.outcomes import Done
from queuemgr.lifecycle import batch_completion, states
from queuemgr.lifecycle.dispatch import dispatch, grant_leases
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.lifecycle.finish import Finish, finish_batch
from queuemgr.lifecycle.scheduler import FreeSlots
from queuemgr.models import Execution, Lease, Route, Worker
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.scheduling.admission import Decision
from queuemgr.scheduling.candidates import RouteScan
from queuemgr.scheduling.capacity import Capacity
from queuemgr.scheduling.decision_input import WaitingRoute
from queuemgr.scheduling.parking import save_parking
from queuemgr.scheduling.snapshot import read_fleet
from tests.model.passing_time import let_pass

pytestmark = pytest.mark.django_db(transaction=True)
Played = Callable[..., Any]
Probes = Callable[..., list[Execution]]
ANN = Actor("ann", "test", "because")


def test_work_that_fell_due_in_a_full_phase_does_not_hide_what_fell_due_elsewhere(
    played: Played, probes: Probes
) -> None:
    """There is one idle slot, so two routes that fell due are looked at; the first of them cannot
    start, and their times came first as long as their phase is full."""
    worker = played(slots=2)
    controls.edit_limit("phase:prep", ANN, max_running=1)
    for seconds, phase in ((30, "prep"), (31, "prep"), (32, "wrap")):
        due, key = database_now() + timedelta(seconds=seconds), f"host:{phase}{seconds}"
        enqueue("probe", key, {"phase": phase, "limit_key": key}, run_after=due)
    probes(1)
    worker.begin_all()
    assert Route.objects.filter(parked_on="run_after").count() == 3
    let_pass(40)
    dispatch()
    assert Lease.objects.filter(phase="wrap").count() == 1
    dispatch()
    assert Lease.objects.filter(phase="prep").count() == 1, "it is still full"


@pytest.mark.parametrize("key", ["tenant:acme.low", "host:files.high"])
def test_a_route_can_be_parked_on_a_key_named_like_a_queue(played: Played, probes: Probes, key: str) -> None:
    """Were it taken for a queue, its being full would hide all the other work of its queue."""
    played(slots=3)
    controls.edit_limit(key, ANN, max_running=1)
    probes(1, limit_key=key)
    for number in range(4):
        probes(1, limit_key=f"{key} host:{number}", prefix=f"stopped{number}-")
    probes(2, limit_key="host:free", prefix="free")
    assert Lease.objects.count() == 3
    assert Route.objects.filter(parked_on=key).count() == 4


def test_an_unstarted_lease_for_a_worker_that_left_occupies_no_slot_of_the_others(
    played: Played, probes: Probes
) -> None:
    left = played(slots=1, queues=["prep.normal"])
    probes(1)
    Worker.objects.filter(pk=left.row.pk).update(draining_at=database_now())
    played(slots=1, queues=["wrap.normal"])
    probes(1, phase="wrap", prefix="w")
    assert Lease.objects.filter(phase="wrap").count() == 1


@pytest.mark.only_on("sqlite", why="PostgreSQL is given a column of any number of rows as one parameter")
def test_a_decision_parks_more_routes_than_a_statement_of_sqlite_has_parameters_for() -> None:
    """As after a limit of thousands of keys was edited, when all of their routes are read again."""
    with hold_scheduler_lock() as lock:
        fleet, columns = read_fleet(lock.now), 5
        routes = [
            WaitingRoute(
                id=number, phase="prep", priority=NORMAL, resumed=False, limit_keys=f"key:{number}", cost=0,
                weight=1, due=0, head_at=None, served_at=lock.now,
            )
            for number in range(1, SQLITES_PARAMETERS // columns + 2)
        ]  # fmt: skip
        nothing = Decision((), {}, Capacity({}, {}))
        before = connection.connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, SQLITES_PARAMETERS)
        try:
            save_parking(lock, RouteScan(fleet, routes, frozenset(), None), nothing)
        finally:
            connection.connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, before)


SQLITES_PARAMETERS = 32_766
"""What SQLite allows in a statement unless it was built with more."""


def test_a_route_that_started_as_much_as_it_may_is_parked_by_the_same_decision(
    played: Played, probes: Probes
) -> None:
    """On the limit that it has filled, until its next work falls due, or because nothing is left."""
    played(slots=3)
    controls.edit_limit("host:full", ANN, max_running=1)
    probes(2, limit_key="host:full", prefix="full")
    probes(1, limit_key="host:later", prefix="later")
    due = database_now() + timedelta(seconds=30)
    enqueue("probe", "due later", {"limit_key": "host:later"}, run_after=due)
    probes(1, limit_key="host:last", prefix="last")
    assert Lease.objects.count() == 3
    parked = {route.limit_keys: (route.parked_on, route.parked_until) for route in Route.objects.all()}
    assert parked == {
        "host:full": ("host:full", None),
        "host:later": ("run_after", due),
        "host:last": ("nothing waits", None),
    }


def test_keys_take_turns_where_one_slot_comes_free_at_a_time(played: Played, probes: Probes) -> None:
    for key in "abc":
        probes(3, limit_key=f"host:{key}", prefix=key)
    worker = played(slots=1)
    dispatch()
    worker.begin_all()
    order = []
    for _ in range(9):
        [lease] = Lease.objects.all()
        order.append(lease.limit_keys)
        finish_batch([Finish(lease.pk, Done())], FreeSlots(worker.row.pk, frozenset(all_queues()), 1))
    assert order == ["host:a", "host:b", "host:c"] * 3


@pytest.mark.only_on("postgres", why="somebody holds a row while another transaction decides")
def test_what_is_parked_for_a_start_that_was_passed_over_is_read_again(
    played: Played, probes: Probes
) -> None:
    """Nobody else would wake it: no lease under that limit will end."""
    controls.edit_limit("tenant:acme", ANN, max_running=1)
    [held] = probes(1, limit_key="tenant:acme host:one", prefix="one")
    probes(1, limit_key="tenant:acme host:two", prefix="two")
    played(slots=1)
    is_locked, may_end = Event(), Event()

    def hold() -> None:
        with transaction.atomic():
            Execution.objects.select_for_update().get(pk=held.pk)
            is_locked.set()
            may_end.wait(60)
            Execution.objects.filter(pk=held.pk).update(run_after=database_now() + timedelta(days=1))
        connection.close()

    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(hold)
        is_locked.wait(60)
        dispatch()
        assert not Lease.objects.exists()
        may_end.set()
        holding.result()
    dispatch()
    assert Lease.objects.get().limit_keys == "tenant:acme host:two"


def test_a_large_cancellation_goes_on_at_once_though_a_start_was_passed_over(
    played: Played, probes: Probes, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes(1)
    played(slots=1)
    monkeypatch.setattr(batch_completion, "advance_batches", lambda *_: True)
    monkeypatch.setattr(states, "take_heads", lambda *_: [])
    granted = grant_leases()
    assert granted is not None
    assert granted.next_wakeup == 0
