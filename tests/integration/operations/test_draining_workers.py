"""Draining a worker by name: it finishes what runs and gets nothing new, until it is resumed or undone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from queuemgr.base.errors import BadInput, CannotUndo
from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import AuditEntry, Lease, State, Worker, WorkerDrain
from queuemgr.operations import undo, workers
from queuemgr.operations.controls import Actor
from queuemgr.reporting import explain, worker_states
from queuemgr.worker import drain_orders
from queuemgr.worker.current_worker import CurrentWorker
from queuemgr.worker.queue_consumption import QueueConsumption

pytestmark = pytest.mark.django_db(transaction=True)
MakeWorker = Callable[..., Worker]
ANN, BOB = Actor("ann", "command", "new disk"), Actor("bob", "admin", "done")


def test_a_drained_worker_is_granted_nothing_and_what_it_runs_continues(played: Any, probes: Any) -> None:
    worker = played(slots=2, name="steps@a")
    probes(1)
    (running,) = worker.begin_all()
    assert workers.drain("steps@a", ANN)
    probes(3, prefix="later")
    assert Lease.objects.count() == 1
    assert not Worker.objects.available(database_now()).exists()
    assert Worker.objects.running(database_now()).exists()
    assert worker.end(running, next_too=False) == []
    workers.resume("steps@a", BOB)
    assert Lease.objects.unstarted().count() == 2, "at once, and without a restart"


def test_work_that_waits_for_drained_workers_only_says_so(
    played: Any, probes: Any, make_worker: MakeWorker
) -> None:
    played(slots=2, name="steps@a")
    workers.drain("steps@a", ANN)
    (execution,) = probes(1)
    said = explain.reasons().of(execution)
    assert said.startswith("no live worker takes work from prep.normal: steps@a drained by ann since 20")
    assert said.endswith(" UTC: new disk; `queue worker resume steps@a`")
    make_worker(slots=0, name="steps@b")
    assert "is busy" in explain.reasons().of(execution)


def test_leases_that_wait_for_a_drained_worker_go_to_another_at_once(
    played: Any, probes: Any, make_worker: MakeWorker
) -> None:
    played(slots=2, name="steps@a")
    (execution, _) = probes(2)
    make_worker(slots=1, name="steps@b")
    before = set(Lease.objects.values_list("pk", flat=True))
    workers.drain("steps@a", ANN)
    execution.refresh_from_db()
    assert Lease.objects.count() == 1, "as many as the other has slots"
    assert not before & set(Lease.objects.values_list("pk", flat=True))
    assert not execution.attempts.exists()


def test_a_drain_says_since_when_by_whom_and_why_and_is_recorded(make_worker: MakeWorker) -> None:
    make_worker(name="steps@a")
    assert workers.drain("steps@a", ANN)
    assert not workers.drain("steps@a", BOB), "the first stays"
    (state,) = worker_states.workers()
    assert (state.condition, state.drained_by, state.drain_reason) == ("drained", "ann", "new disk")
    assert state.drained.startswith("drained by ann since 20")
    assert workers.resume("steps@a", BOB)
    assert not workers.resume("steps@a", BOB)
    (state,) = worker_states.workers()
    assert (state.condition, state.drained) == ("live", "")
    entries = AuditEntry.objects.order_by("pk").values_list("action", "actor", "target")
    assert list(entries) == [("drain worker", "ann", "steps@a"), ("resume worker", "bob", "steps@a")]


def test_a_drain_is_undone_once_and_only_if_nothing_changed_since(make_worker: MakeWorker) -> None:
    make_worker(name="steps@a")
    workers.drain("steps@a", ANN)
    drained, was = AuditEntry.objects.get(), WorkerDrain.objects.get()
    undone = undo.undo(drained, BOB)
    assert not WorkerDrain.objects.exists()
    with pytest.raises(CannotUndo):
        undo.undo(drained, BOB)
    undo.undo(undone, BOB)
    again = WorkerDrain.objects.get()
    assert (again.drained_at, again.drained_by, again.drain_reason) == (was.drained_at, "ann", "new disk")
    workers.resume("steps@a", BOB)
    workers.drain("steps@a", BOB)
    with pytest.raises(CannotUndo, match="has changed since"):
        undo.undo(AuditEntry.objects.get(action="resume worker", undoes=None), ANN)


def test_a_drain_is_of_the_name_and_survives_a_restart(make_worker: MakeWorker) -> None:
    make_worker(name="steps@a")
    workers.drain("steps@a", ANN)
    Worker.objects.all().delete()
    restarted = CurrentWorker(make_worker(name="steps@a"))
    drain_orders.follow(restarted)
    assert not restarted.takes_work
    assert not Worker.objects.available(database_now()).exists()
    Worker.objects.all().delete()
    workers.resume("steps@a", ANN)
    assert not WorkerDrain.objects.exists(), "also while none of its name is known"


@pytest.mark.parametrize(
    ("given", "meant"),
    [("steps@a", "steps@a"), ("other", "other@b"), ("steps", None), ("gone", None), ("", None)],
)
def test_a_worker_is_found_by_its_name_or_the_part_before_the_host(
    given: str, meant: str | None, make_worker: MakeWorker
) -> None:
    for name in ("steps@a", "steps@b", "other@b"):
        make_worker(name=name)
    if meant:
        assert workers.find(given) == meant
    else:
        with pytest.raises(BadInput, match="worker"):
            workers.find(given)


def test_a_process_follows_a_drain_both_ways_and_a_shutdown_stays(
    make_worker: MakeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    worker = CurrentWorker(make_worker(name="steps@a"))
    workers.drain("steps@a", ANN)
    for _ in range(3):
        assert drain_orders.follow(worker) is None
        assert not worker.takes_work
    workers.resume("steps@a", BOB)
    drain_orders.follow(worker)
    assert worker.takes_work
    assert len([line for line in caplog.messages if "steps@a" in line]) == 2, "one line each"
    worker.draining.set()
    drain_orders.follow(worker)
    assert not worker.takes_work


def test_a_message_that_reaches_a_drained_worker_is_handed_back_at_once(
    played: Any, probes: Any, make_worker: MakeWorker, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    played(slots=1, name="steps@a")
    (execution,) = probes(1)
    make_worker(slots=1, name="steps@b")
    first = Lease.objects.get().pk
    later: list[float | None] = []
    monkeypatch.setattr(drain_orders, "schedule_redispatch", later.append)
    drain_orders.hand_back([first])
    assert later == [0] and not Lease.objects.exists()
    dispatch()
    execution.refresh_from_db()
    assert Lease.objects.get().pk != first
    assert execution.state == State.LEASED
    assert not execution.attempts.exists()
    dispatch()
    assert len(sent) == 2


class Loop:
    """A worker's main loop: queues it consumes, and what it is asked to do."""

    def __init__(self, *queues: str) -> None:
        self.consumed, self.consumer, self.task_consumer = set(queues), self, self

    def consuming_from(self, queue: str) -> bool:
        return queue in self.consumed

    def call_soon(self, act: Callable[..., None], *args: Any) -> None:
        act(*args)

    def add_task_queue(self, queue: str) -> None:
        self.consumed.add(queue)

    def cancel_task_queue(self, queue: str) -> None:
        self.consumed.remove(queue)


def test_only_the_queues_of_steps_are_consumed_or_not_and_a_reconnected_consumer_is_corrected() -> None:
    loop = Loop("prep.high", "prep.low", "housekeeping")
    consumption = QueueConsumption(loop, ["prep.high", "prep.low"])
    consumption.match(False)
    assert loop.consumed == {"housekeeping"}
    loop.consumed.add("prep.low")
    consumption.match(False)
    assert loop.consumed == {"housekeeping"}
    consumption.match(True)
    assert loop.consumed == {"housekeeping", "prep.high", "prep.low"}
    consumption.match(True)
    loop.consumed.remove("prep.high")  # by `celery control cancel_consumer`
    consumption.match(True)
    assert loop.consumed == {"housekeeping", "prep.low"}, "that is somebody else's wish"
    loop.task_consumer = None  # type: ignore[assignment]  # while it connects
    consumption.match(False)
