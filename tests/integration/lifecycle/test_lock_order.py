"""Rows and locks are taken in one order, so that no two transactions wait for each other."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from queuemgr.base.scheduler_lock import acquire, database_now
from queuemgr.flows.outcomes import Done, Failed, Result
from queuemgr.lifecycle import lease_locks
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Lease, Worker, WorkerDrain
from queuemgr.operations import workers
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import breakers
from queuemgr.scheduling.breakers import ServiceReport
from queuemgr.worker import registration
from queuemgr.worker.current_worker import CurrentWorker, set_current_worker

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.only_on("postgres", why="needs row locks and two connections"),
]

ANN = Actor("ann", "test", "because")
RESULTS: list[Result] = [
    Done(),
    Failed("network", "x"),
    Failed("rate_limited", "x"),
    Failed("not_found", "x"),
]


def deregister(worker: Worker) -> None:
    set_current_worker(CurrentWorker(worker))
    registration.deregister(worker.pk)


def drain(worker: Worker) -> None:
    workers.drain(worker.name, ANN)


@pytest.mark.parametrize("leave", [deregister, drain])
def test_a_worker_leaves_while_somebody_holds_its_leases_and_waits_for_the_scheduler_lock(
    leave: Callable[[Worker], None], make_worker: Callable[..., Worker], sent: list[Any]
) -> None:
    """As an action on executions does: it has their leases first."""
    worker = make_worker(slots=3)
    enqueue("probe", "one")
    dispatch()
    assert Lease.objects.unstarted().count() == 1
    failed: list[Exception] = []

    def change() -> None:
        try:
            leave(worker)
        except Exception as error:
            failed.append(error)
        finally:
            connection.close()

    with transaction.atomic():
        lease_locks.lock_of(list(Lease.objects.values_list("execution_id", flat=True)))
        leaving = threading.Thread(target=change)
        leaving.start()
        leaving.join(0.5)  # as far as it comes
        acquire()
    leaving.join(20)
    assert not failed and not leaving.is_alive()
    assert Worker.objects.get().draining_at or WorkerDrain.objects.exists()


def test_results_recorded_in_any_order_at_once_never_deadlock(in_threads: Callable[..., list[Any]]) -> None:
    names = [f"host:{letter}" for letter in "abcdefgh"]
    now = database_now()
    for name in names:
        breakers.open_breaker(name, now, "was open")

    def record(number: int) -> None:
        chance = random.Random(number)
        for _ in range(15):
            reports = [ServiceReport(name, now, chance.choice(RESULTS)) for name in names for _ in range(2)]
            chance.shuffle(reports)
            with transaction.atomic():
                breakers.record_results(reports, {}, database_now())

    in_threads(4, record)
