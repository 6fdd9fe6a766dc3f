"""Rows that somebody else has locked hold up what needs them, and nothing else that a worker's threads do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, connections, transaction

from queuemgr.base import sql
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.outcomes import Done, Failed, Lost
from queuemgr.lifecycle import finish, redispatch_timer
from queuemgr.lifecycle.continuation import continuation_of
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.finish import Finish
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import Attempt, Execution, Lease, PeriodicJob, State
from queuemgr.worker import drain_orders, expiry, lease_renewal, pool_children, worker_row
from queuemgr.worker.current_worker import CurrentWorker
from queuemgr.worker.group_commit import GroupCommitter
from queuemgr.worker.running_steps import RunningSteps

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.only_on("postgres", why="needs row locks and two connections"),
]

SOON = 4.0
"""Seconds: several bounded waits of a thread that others depend on, on a busy machine."""

EXECUTION = "SELECT 1 FROM queuemgr_execution WHERE id = %s FOR UPDATE"
LEASE = "SELECT 1 FROM queuemgr_lease WHERE execution_id = %s FOR UPDATE"
BOTH = [EXECUTION, LEASE]


@contextmanager
def locked(statement: str, *parameters: Any) -> Iterator[Callable[[], None]]:
    """Somebody else holds these rows; the function given releases them."""
    holds, over = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            sql.column(statement, parameters)
            holds.set()
            over.wait(30)
        connection.close()

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    assert holds.wait(10)
    try:
        yield over.set
    finally:
        over.set()
        thread.join(20)


class Slots:
    """Ends leases as the slots of one process do, each in a thread of its own."""

    def __init__(self, worker: CurrentWorker) -> None:
        self.committer, self.outcomes = GroupCommitter(worker), dict[str, str | None]()
        self._threads: list[threading.Thread] = []

    def run(self, act: Callable[[], None]) -> None:
        def run() -> None:
            act()
            connections.close_all()

        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()

    def end(self, grant: Grant) -> None:
        def end() -> None:
            ending = Finish(grant.lease_id, Done(), continuation_of(grant, Done()))
            self.outcomes[grant.key] = self.committer.finish(grant, ending, 0.1, wants_next=True).outcome

        self.run(end)

    def begin(self, lease: Lease) -> None:
        self.run(lambda: self.outcomes.update({lease.execution.key: _key(self.committer.begin(lease.pk))}))

    def wait_for(self, count: int, seconds: float = SOON) -> None:
        until = time.monotonic() + seconds
        while len(self.outcomes) < count and time.monotonic() < until:
            time.sleep(0.01)
        assert len(self.outcomes) == count, self.outcomes


def _key(grant: Grant | None) -> str | None:
    return grant.key if grant else None


@pytest.fixture
def slots(played: Callable[..., Any]) -> Callable[..., tuple[Any, Slots]]:
    def make(count: int = 4) -> tuple[Any, Slots]:
        worker = played(slots=count)
        return worker, Slots(CurrentWorker(worker.row))

    return make


@pytest.mark.parametrize("statement", BOTH)
def test_a_row_somebody_locked_holds_up_the_end_of_one_step_and_none_of_the_others(
    statement: str, slots: Callable[..., Any], probes: Callable[..., list[Execution]]
) -> None:
    worker, running = slots()
    first = probes(4)[0]
    grants = worker.begin_all()
    with locked(statement, first.pk) as release:
        for grant in grants:
            running.end(grant)
        running.wait_for(3)
        assert first.key not in running.outcomes
        release()
        running.wait_for(4)
    assert set(running.outcomes.values()) == {"done"}
    assert not Lease.objects.exists()
    assert Attempt.objects.count() == 4


@pytest.mark.parametrize("statement", BOTH)
def test_a_row_somebody_locked_holds_up_the_start_of_one_step_and_none_of_the_others(
    statement: str, slots: Callable[..., Any], probes: Callable[..., list[Execution]]
) -> None:
    _, running = slots()
    first = probes(4)[0]
    with locked(statement, first.pk) as release:
        for lease in Lease.objects.select_related("execution"):
            running.begin(lease)
        running.wait_for(3)
        assert first.key not in running.outcomes
        release()
        running.wait_for(4)
    assert Execution.objects.filter(state=State.RUNNING).count() == 4


SHARED = [
    pytest.param("SELECT 1 FROM queuemgr_route FOR UPDATE", id="every route"),
    pytest.param("SELECT 1 FROM queuemgr_worker FOR UPDATE", id="every worker"),
    pytest.param("SELECT 1 FROM queuemgr_chore FOR UPDATE", id="every periodic job"),
    pytest.param("SELECT 1 FROM queuemgr_gate FOR UPDATE", id="every clock of a limit"),
]


@pytest.mark.parametrize("statement", SHARED)
def test_results_are_stored_though_somebody_holds_rows_that_only_decisions_need(
    statement: str, slots: Callable[..., Any], probes: Callable[..., list[Execution]]
) -> None:
    worker, running = slots(2)
    probes(6)
    grants = worker.begin_all()
    with locked(statement):
        for grant in grants:
            running.end(grant)
        running.wait_for(2, 2 * SOON)
    assert set(running.outcomes.values()) == {"done"}


def test_a_locked_execution_that_waits_is_passed_over_by_decisions_and_started_later(
    played: Callable[..., Any], probes: Callable[..., list[Execution]], monkeypatch: pytest.MonkeyPatch
) -> None:
    again: list[float | None] = []
    monkeypatch.setattr(redispatch_timer, "schedule_redispatch", again.append)
    first, *others = probes(3)
    worker = played(slots=3)
    with locked(EXECUTION, first.pk):
        began = time.monotonic()
        dispatch()
        assert time.monotonic() - began < SOON
        assert {grant.key for grant in worker.begin_all()} == {each.key for each in others}
    assert again[-1] is not None and again[-1] <= 1, "nobody says when it is free"
    dispatch()
    assert [grant.key for grant in worker.begin_all()] == [first.key]


def have_expired() -> None:
    """Every lease, though somebody looked just now."""
    PeriodicJob.objects.update_or_create(name=expiry.JOB, defaults={"ran_at": database_now()})
    Lease.objects.update(expires_at=database_now().replace(year=2020))


def renew(worker: Any) -> None:
    steps = RunningSteps(worker.row.name)
    lease_renewal.renew(CurrentWorker(worker.row), steps)


THREADS: dict[str, Callable[[Any], object]] = {
    "look for expired leases": lambda worker: expiry.look(),
    "requeue what is stranded": lambda worker: expiry.requeue_stranded(),
    "renew": renew,
    "hand back": lambda worker: drain_orders.hand_back(
        list(Lease.objects.unstarted().values_list("pk", flat=True))
    ),
    "dispatch": lambda worker: dispatch(),
}


@pytest.mark.parametrize("thread", THREADS)
@pytest.mark.parametrize("statement", BOTH)
@pytest.mark.parametrize("started", [True, False])
def test_no_thread_of_a_worker_waits_for_a_row_that_somebody_has_locked(
    started: bool, statement: str, thread: str, played: Any, probes: Callable[..., list[Execution]]
) -> None:
    worker = played(slots=3)
    first, *_ = probes(3)
    if started:
        worker.begin_all()
    if thread == "look for expired leases":
        have_expired()
    with locked(statement, first.pk):
        began = time.monotonic()
        THREADS[thread](worker)
        assert time.monotonic() - began < SOON
        if thread == "look for expired leases":
            states = set(Execution.objects.exclude(pk=first.pk).values_list("state", flat=True))
            assert states == {State.WAITING}, "others were not ended"
    if thread == "look for expired leases":
        expiry.look()
        assert Execution.objects.get(pk=first.pk).state == State.WAITING


def test_a_worker_whose_row_is_locked_skips_a_heartbeat_and_hears_of_everything_else(played: Any) -> None:
    worker = CurrentWorker(played().row)
    with locked("SELECT 1 FROM queuemgr_worker FOR UPDATE"):
        began = time.monotonic()
        for act in (worker_row.beat, lambda each: worker_row.rewrite(each.worker_id)):
            with pytest.raises(Exception, match="lock timeout") as refused:
                act(worker)
            assert sql.is_busy(refused.value)
        assert time.monotonic() - began < SOON
    worker_row.beat(worker)


def test_the_locked_row_of_one_child_of_a_pool_does_not_keep_the_others_from_theirs(
    played: Any, probes: Callable[..., list[Execution]]
) -> None:
    worker = played(slots=1)
    (only,) = probes(1)
    (grant,) = worker.begin_all()
    with locked(EXECUTION, only.pk):
        assert not pool_children._end_lease(grant.lease_id, Lost("its process is gone"))
    assert pool_children._end_lease(grant.lease_id, Lost("its process is gone"))
    assert not Lease.objects.exists()


def test_an_end_by_itself_raises_where_somebody_holds_a_row_and_ends_afterwards(
    played: Any, probes: Callable[..., list[Execution]]
) -> None:
    worker = played(slots=1)
    (only,) = probes(1)
    (grant,) = worker.begin_all()
    ending = Finish(grant.lease_id, Failed("network", "x"))
    with locked(EXECUTION, only.pk), pytest.raises(Exception, match="has locked"):
        finish.finish_alone(ending, 50)
    assert finish.finish_alone(ending, 50) == "retried"
    assert finish.finish_alone(ending, 50) is None
