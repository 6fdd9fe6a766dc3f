"""Work of a flow or step that a worker does not have: of a newer release, or of one before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows import flow
from queuemgr.flows.flow import Flow
from queuemgr.flows.outcomes import Done
from queuemgr.lifecycle import unknown_steps
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import AllowanceClock, AllowanceUsage, Attempt, Execution, Lease, State, Worker
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.reporting import explain
from queuemgr.reporting.unknown_work import unknown_work
from queuemgr.scheduling import limit_rows
from queuemgr.scheduling.worker_statements import Statement
from queuemgr.worker import housekeeping, worker_row
from tests.integration.conftest import PlayedWorker

NAME = "of-a-new-release"

pytestmark = pytest.mark.usefixtures("transactional_db", "sent")


@pytest.fixture
def new_flow(monkeypatch: pytest.MonkeyPatch) -> Flow:
    """A flow that this process knows inside `known()` only."""
    monkeypatch.setattr(flow, "_flows", dict(flow._flows))
    return replace(flow.get_flow("probe"), name=NAME)


@contextmanager
def known(new: Flow) -> Iterator[Statement]:
    flow.register_flow(new)
    try:
        yield limit_rows.statement(limit_rows.stated())
    finally:
        del flow._flows[new.name]


def enqueued(new: Flow, count: int = 1, **payload: Any) -> None:
    with known(new):
        for number in range(count):
            enqueue(new.name, f"p{number}", payload)


def refuse_all() -> int:
    """Have a worker that does not know them get all leases on their way; returns how many."""
    leases = list(Lease.objects.unstarted().values_list("pk", flat=True))
    return sum(unknown_steps.put_back(lease) for lease in leases)


def upgraded(worker: Worker, stated: Statement) -> None:
    """As if this worker ran a release that states this."""
    worker_row._note_statement(worker, stated)


def later(seconds: float) -> None:
    """Let time pass for the work."""
    step = timedelta(seconds=seconds)
    Execution.objects.update(run_after=F("run_after") - step, unknown_since=F("unknown_since") - step)
    controls._reconsider_all()


def test_work_a_worker_does_not_know_waits_without_an_attempt_a_charge_or_a_start_of_its_rate(
    played: Callable[..., PlayedWorker], new_flow: Flow
) -> None:
    played(slots=1)
    controls.edit_limit("phase:prep", Actor("ann", "test"), rate="1/h", daily_budget=5)
    enqueued(new_flow)
    assert refuse_all() == 1
    execution = Execution.objects.get()
    assert (execution.state, execution.error_kind) == (State.WAITING, "unknown_step")
    assert not Lease.objects.exists()
    assert not Attempt.objects.exists()
    assert not AllowanceUsage.objects.exclude(spent=0).exists()
    assert not AllowanceClock.objects.exists()


def test_work_that_no_live_worker_knows_is_offered_to_nobody_and_said_everywhere(
    played: Callable[..., PlayedWorker], new_flow: Flow
) -> None:
    """However often it is decided: a lease each, and no more."""
    played(slots=100)
    enqueued(new_flow, 50)
    assert refuse_all() == 50
    for _ in range(5):
        housekeeping.tick()
        assert refuse_all() == 0
    assert [str(work) for work in unknown_work()] == [
        f"50 executions wait for a worker that has step probe of flow {NAME}"
    ]
    said = explain.reasons().of(Execution.objects.first())  # type: ignore[arg-type]  # there is one
    assert said.startswith(f"no live worker has step probe of flow {NAME}, since ")


def test_it_runs_as_soon_as_a_worker_that_knows_it_is_there(
    played: Callable[..., PlayedWorker], new_flow: Flow
) -> None:
    worker = played(slots=1)
    enqueued(new_flow)
    refuse_all()
    with known(new_flow) as stated:
        upgraded(worker.row, stated)
        housekeeping.tick()
        (grant,) = worker.begin_all()
        worker.end(grant, Done())
    execution = Execution.objects.get()
    assert (execution.state, execution.error_kind, execution.unknown_since) == (State.DONE, "", None)
    assert [attempt.outcome for attempt in Attempt.objects.all()] == ["done"]


def test_while_some_workers_know_it_it_is_offered_ever_more_rarely(
    played: Callable[..., PlayedWorker], make_worker: Callable[..., Worker], new_flow: Flow
) -> None:
    """An hour of a deploy in which every message of it reaches a worker of the old release."""
    played(slots=10)
    with known(new_flow) as stated:
        upgraded(make_worker(name="new@there"), stated)
    enqueued(new_flow)
    refusals, passed = 0, 0.0
    while passed < 3600:
        dispatch()
        refusals += refuse_all()
        pause = (Execution.objects.get().run_after - database_now()).total_seconds()  # type: ignore[operator]
        later(pause)
        passed += pause
    assert 50 < refusals < 80, refusals
    assert not Attempt.objects.exists()


def test_after_the_bound_without_a_worker_that_knows_it_it_fails_where_everybody_sees_it(
    played: Callable[..., PlayedWorker], new_flow: Flow, configure: Callable[..., None]
) -> None:
    configure(unknown_step_seconds=300)
    played(slots=1)
    enqueued(new_flow)
    refuse_all()
    later(299)
    dispatch()
    assert refuse_all() == 0
    later(2)
    dispatch()
    assert refuse_all() == 1
    execution = Execution.objects.get()
    assert (execution.state, execution.error_kind) == (State.FAILED, "unknown_step")
    assert execution.error_message.startswith(f"no live worker has step probe of flow {NAME}, since ")


def test_a_slot_that_comes_free_is_given_no_work_its_worker_does_not_know(
    played: Callable[..., PlayedWorker], probes: Callable[..., Any], new_flow: Flow
) -> None:
    worker = played(slots=1)
    probes(2)
    (grant,) = worker.begin_all()
    enqueued(new_flow)
    Execution.objects.filter(flow=NAME).update(run_after=database_now() - timedelta(hours=1))
    assert all(next_grant.flow != NAME for next_grant in worker.end(grant, Done()))
    execution = Execution.objects.get(flow=NAME)
    assert execution.state == State.WAITING
    assert not Lease.objects.filter(execution=execution).exists()


def test_work_of_a_phase_that_its_flow_no_longer_has_waits_and_fails_after_the_bound(
    played: Callable[..., PlayedWorker], new_flow: Flow, configure: Callable[..., None]
) -> None:
    """No worker consumes its queue any more, so nobody is offered it."""
    configure(unknown_step_seconds=300)
    worker = played(slots=1)
    before = replace(new_flow, phases=tuple(replace(phase, name="gone") for phase in new_flow.phases[:1]))
    enqueued(before)
    with known(new_flow) as stated:
        upgraded(worker.row, stated)
        housekeeping.tick()
        assert [work.executions for work in unknown_work()] == [1]
        later(301)
        housekeeping.tick()
    execution = Execution.objects.get()
    assert (execution.state, execution.error_kind) == (State.FAILED, "unknown_step")


def test_work_of_a_flow_that_no_running_worker_has_is_left_to_its_workers(
    played: Callable[..., PlayedWorker], new_flow: Flow, configure: Callable[..., None]
) -> None:
    """Those of one application may all be down for a weekend, while those of another run."""
    configure(unknown_step_seconds=300)
    played(slots=1)
    enqueued(replace(new_flow, phases=tuple(replace(phase, name="gone") for phase in new_flow.phases[:1])))
    for _ in range(3):
        later(301)
        housekeeping.tick()
    execution = Execution.objects.get()
    assert (execution.state, execution.unknown_since) == (State.WAITING, None)
