"""Messages and worker rows are only hints: work continues whatever happens to either."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from celery import current_app
from redis import Redis

from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows import flow
from queuemgr.flows.outcomes import Done
from queuemgr.lifecycle import begin, finish, unknown_steps
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.lifecycle.finish import Finish
from queuemgr.lifecycle.publish import UNKNOWN_STEP, task_of
from queuemgr.local.checks import broker as broker_checks
from queuemgr.models import Attempt, Execution, Lease, Outcome, State, Worker
from queuemgr.worker import housekeeping, lease_renewal, probe_flow
from queuemgr.worker.current_worker import CurrentWorker
from queuemgr.worker.leased_task import LeasedTask
from queuemgr.worker.running_steps import RunningSteps
from tests.integration.conftest import let_time_pass

pytestmark = pytest.mark.django_db(transaction=True)
Played = Callable[..., Any]
Probes = Callable[..., list[Execution]]
QUEUE = "prep.normal"


@pytest.fixture
def broker() -> Iterator[Redis]:
    """The tests' own broker, left as it was found."""
    with Redis.from_url(os.environ["BROKER_URL"]) as redis:
        redis.delete(QUEUE)
        yield redis
        redis.config_set("maxmemory", 0)
        redis.config_set("maxmemory-policy", "noeviction")
        redis.delete(QUEUE)


def run_out() -> None:
    Lease.objects.update(expires_at=database_now() - timedelta(seconds=1))


def test_messages_a_full_broker_refused_are_published_later_and_nothing_is_lost(
    broker: Redis, make_worker: Callable[..., Worker]
) -> None:
    """The database is the truth; what could not be published is sent by a later tick."""
    worker = make_worker(slots=3)
    broker.config_set("maxmemory", 1)
    for number in range(3):
        assert enqueue("probe", f"p{number}")
    assert broker.llen(QUEUE) == 0
    assert Execution.objects.filter(state=State.LEASED).count() == 3
    broker.config_set("maxmemory", 0)
    run_out()
    housekeeping.tick()
    assert broker.llen(QUEUE) == 3
    begun = begin.begin(list(Lease.objects.values_list("pk", flat=True)), worker.pk).grants
    finish.finish_batch([Finish(grant.lease_id, Done()) for grant in begun], None)
    assert Execution.objects.filter(state=State.DONE).count() == 3
    assert list(Attempt.objects.values_list("outcome", flat=True)) == [Outcome.DONE] * 3


def test_messages_evicted_by_a_full_broker_are_published_again(
    broker: Redis, make_worker: Callable[..., Worker]
) -> None:
    """With an LRU policy a broker may forget a whole queue."""
    make_worker(slots=5)
    for number in range(5):
        enqueue("probe", f"p{number}")
    assert broker.llen(QUEUE) == 5
    broker.delete(QUEUE)
    run_out()
    housekeeping.tick()
    assert broker.llen(QUEUE) == 5
    assert not Attempt.objects.exists()


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_doctor_reports_an_eviction_policy_that_drops_messages(policy: str, broker: Redis) -> None:
    """It costs time only, but nobody would know where that went."""
    assert not [f for f in broker_checks.answers() if f.level != "good"]
    broker.config_set("maxmemory-policy", policy)
    (note,) = [f for f in broker_checks.answers() if f.level != "good"]
    assert f"maxmemory-policy {policy}" in note.what
    assert "noeviction" in note.remedy


def test_work_of_a_newer_release_waits_until_a_worker_is_upgraded(
    played: Played, probes: Probes, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker of before a release meets work of after it."""
    monkeypatch.setattr(flow, "_flows", dict(flow._flows))
    new = flow.register_flow(replace(flow.get_flow("probe"), name="new-in-this-release"))
    worker = played(slots=1)
    enqueue(new.name, "p0")
    del flow._flows[new.name]
    (grant,) = sent
    assert task_of(grant) == UNKNOWN_STEP
    assert unknown_steps.put_back(grant.lease_id)
    execution = Execution.objects.get()
    assert execution.state == State.WAITING
    assert "no live worker has step probe of flow new-in-this-release" in execution.wait_reason
    assert not Attempt.objects.exists()
    flow.register_flow(new)
    let_time_pass(Execution.objects.all())
    dispatch()
    (grant,) = worker.begin_all()
    assert task_of(grant) == probe_flow.TASK
    worker.end(grant, Done())
    assert Execution.objects.get().state == State.DONE


def test_a_message_discarded_by_an_old_worker_is_published_again_until_one_starts_it(
    played: Played, probes: Probes, sent: list[Any]
) -> None:
    """Celery discards a message whose task it does not know; that begins nothing."""
    worker = played(slots=1)
    probes(1)
    for _ in range(5):
        run_out()
        housekeeping.tick()
    assert len({grant.lease_id for grant in sent}) == 6
    assert not Attempt.objects.exists()
    (grant,) = worker.begin_all()
    worker.end(grant, Done())
    assert Execution.objects.get().state == State.DONE


@pytest.mark.parametrize("record", ["forgotten", "seen just now", "renamed"])
def test_a_lease_expires_by_itself_whatever_the_row_of_its_worker_says(
    record: str, played: Played, probes: Probes
) -> None:
    """Neither a record that was pruned nor one kept fresh by a namesake holds on to work."""
    worker = played(slots=1)
    probes(1)
    worker.begin_all()
    rows = Worker.objects.filter(pk=worker.row.pk)
    if record == "forgotten":
        rows.update(seen_at=database_now() - timedelta(days=30), draining_at=database_now())
        housekeeping.prune()
    elif record == "renamed":
        rows.update(name="another@elsewhere", host="elsewhere", pid=2)
    run_out()
    if record == "seen just now":
        rows.update(seen_at=database_now())
    assert housekeeping.tick()["lost"] == 1
    assert Execution.objects.get().state in (State.WAITING, State.LEASED)
    assert not Lease.objects.started().exists()


def test_a_step_of_any_length_keeps_its_lease_while_its_worker_renews_it(
    played: Played, probes: Probes
) -> None:
    """The lease bounds silence, not run time: forty minutes in steps of a minute."""
    worker = played(slots=1)
    this = CurrentWorker(worker.row)
    probes(1)
    (grant,) = worker.begin_all()
    steps = RunningSteps(this.name)
    with steps.running(grant) as step:
        for _ in range(40):
            lease = Lease.objects.get()
            Lease.objects.update(expires_at=lease.expires_at - timedelta(minutes=1))
            housekeeping.tick()
            lease_renewal.renew(this, steps)
        assert not step.signal.aborted
    assert Lease.objects.get().pk == grant.lease_id
    assert not Attempt.objects.exists()
    Lease.objects.update(expires_at=database_now() - timedelta(seconds=1))
    housekeeping.tick()
    assert Attempt.objects.get().outcome == Outcome.LOST, "silence beyond the lease ends it"


def test_celery_itself_redelivers_no_message() -> None:
    """Acknowledging late or early decides nothing here; what a dead child ran comes back by its
    lease. A task of ours with settings of its own would be a second judge."""
    current_app.loader.import_default_modules()
    ours = [task for task in current_app.tasks.values() if isinstance(task, LeasedTask)]
    assert len(ours) > 3
    assert {(task.acks_late, task.reject_on_worker_lost) for task in ours} == {(True, False)}
    assert {task.max_retries for task in ours} == {0}, "one place decides on retries"
    assert not [task.name for task in ours if getattr(task, "autoretry_for", None)]
