"""The row of a live worker stays, or comes back under its id; that of a dead one goes, whatever clocks do."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from datetime import timedelta
from typing import Any, cast

import pytest
from django.db import OperationalError

from queuemgr.base.errors import RuleFailed
from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle import begin
from queuemgr.models import Lease, Worker
from queuemgr.models.workers import live_span
from queuemgr.scheduling.snapshot import read_fleet
from queuemgr.worker import drain_orders, housekeeping, registration, slot_threads, worker_row
from queuemgr.worker.current_worker import CurrentWorker, set_current_worker

pytestmark = pytest.mark.django_db(transaction=True)
MakeWorker = Callable[..., Worker]
LONG = timedelta(days=2)


def step_the_clock(by: timedelta) -> None:
    """What everybody stored looks so much older."""
    for row in Worker.objects.all():
        gone = row.gone_since and row.gone_since - by
        Worker.objects.filter(pk=row.pk).update(seen_at=row.seen_at - by, gone_since=gone)


def later_prune() -> int:
    """The next run of the job: longer after the last than three heartbeats."""
    for row in Worker.objects.exclude(gone_since=None):
        Worker.objects.filter(pk=row.pk).update(gone_since=row.gone_since - timedelta(minutes=10))
    return housekeeping.prune()["workers"]


def test_a_worker_whose_row_is_gone_registers_again_under_its_id(
    make_worker: MakeWorker, probes: Any, caplog: pytest.LogCaptureFixture
) -> None:
    row = make_worker(slots=3, name="steps@here")
    worker = CurrentWorker(row)
    before = {name: value for name, value in vars(row).items() if name[0] != "_" and name != "seen_at"}
    Worker.objects.all().delete()
    worker_row.beat(worker)
    (line,) = caplog.messages
    assert "the row of worker steps@here" in line
    worker_row.beat(worker)
    assert len(caplog.messages) == 1, "said once"
    again = Worker.objects.get()
    assert {name: vars(again)[name] for name in before} == before
    probes(1)
    assert begin.begin([Lease.objects.get().pk], worker.worker_id).grants, "its processes keep that id"


def test_a_worker_whose_id_another_has_after_a_restore_gets_a_row_of_its_own(make_worker: MakeWorker) -> None:
    worker = CurrentWorker(make_worker(name="old@here"))
    Worker.objects.all().delete()
    stranger = make_worker(name="new@here")
    Worker.objects.filter(pk=stranger.pk).update(id=worker.worker_id)
    seen = Worker.objects.get().seen_at
    worker_row.beat(worker)
    assert Worker.objects.get(name="new@here").seen_at == seen
    assert worker.worker_id == Worker.objects.get(name="old@here").pk
    assert worker.worker_id != Worker.objects.get(name="new@here").pk


def test_rows_of_live_workers_are_kept_when_every_machine_slept_or_the_clock_was_set(
    make_worker: MakeWorker,
) -> None:
    live, dead = CurrentWorker(make_worker(name="live@a")), make_worker(name="dead@b")
    step_the_clock(LONG)
    assert housekeeping.prune()["workers"] == 0, "no heartbeat has come yet since the step"
    worker_row.beat(live)
    assert later_prune() == 1
    assert Worker.objects.get().name == "live@a"
    assert not Worker.objects.filter(pk=dead.pk).exists()


def test_a_worker_is_kept_though_it_is_heard_only_after_the_next_step_of_the_clock(
    make_worker: MakeWorker,
) -> None:
    """A laptop wakes for a moment, in which nothing but the prune job runs, and sleeps again."""
    worker = CurrentWorker(make_worker())
    for _ in range(3):
        step_the_clock(LONG)
        housekeeping.prune()
        worker_row.beat(worker)
    assert Worker.objects.get().gone_since is None


def test_a_worker_seen_in_the_future_is_dead_at_once_and_pruned_in_the_end(make_worker: MakeWorker) -> None:
    """It died before the clock was set back by two days."""
    worker = make_worker(slots=4)
    step_the_clock(-LONG)
    now = database_now()
    assert not Worker.objects.available(now).exists()
    assert sum(read_fleet(now).idle.values()) == 0
    assert Worker.objects.get().seen_at not in live_span(now)
    assert housekeeping.prune()["workers"] == 0
    assert later_prune() == 1
    worker_row.beat(CurrentWorker(worker))
    assert Worker.objects.available(database_now()).exists()


def test_a_worker_slightly_ahead_of_the_clock_is_alive(make_worker: MakeWorker) -> None:
    make_worker()
    step_the_clock(timedelta(seconds=-2))
    assert Worker.objects.available(database_now()).exists()


def test_a_child_follows_its_parent_to_the_id_that_a_restore_made_it_take(make_worker: MakeWorker) -> None:
    """Until then it would begin leases as the worker that has its old id now, and drain with that one."""
    row = make_worker(name="old@here")
    parent, child = CurrentWorker(row), CurrentWorker(copy(row))
    Worker.objects.all().delete()
    stranger = make_worker(name="new@here")
    Worker.objects.filter(pk=stranger.pk).update(id=row.pk, draining_at=database_now())
    before = child.worker_id
    assert drain_orders.follow(child) is None, "what is asked of the other is not asked of it"
    worker_row.beat(parent)
    drain_orders.follow(child)
    assert child.worker_id == parent.worker_id != before
    assert drain_orders.follow(child) is None


def test_a_worker_that_leaves_leaves_by_the_id_it_has_now(make_worker: MakeWorker) -> None:
    worker = CurrentWorker(make_worker(name="old@here"))
    set_current_worker(worker)
    Worker.objects.all().delete()
    stranger = make_worker(name="new@here")
    Worker.objects.filter(pk=stranger.pk).update(id=worker.worker_id)
    worker_row.beat(worker)
    registration.deregister_or_log()
    leaving = dict(Worker.objects.values_list("name", "draining_at"))
    assert leaving["old@here"] and not leaving["new@here"]


@pytest.mark.parametrize("error", [OperationalError("away"), KeyError("odd"), RuleFailed("a rule")])
def test_a_worker_that_cannot_deregister_still_gives_its_steps_their_grace(
    error: Exception,
    make_worker: MakeWorker,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(*args: Any) -> None:
        raise error

    set_current_worker(CurrentWorker(make_worker()))
    monkeypatch.setattr(registration, "deregister", fails)
    registration.deregister_or_log()
    assert "could not be deregistered" in caplog.text


def test_a_forked_child_leaves_its_queues_to_its_parent(
    make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = CurrentWorker(make_worker(), consumption=cast(Any, "the parent's"))
    set_current_worker(worker)
    monkeypatch.setattr(slot_threads, "start", lambda **how: None)
    registration._start_child()
    assert worker.consumption is None
