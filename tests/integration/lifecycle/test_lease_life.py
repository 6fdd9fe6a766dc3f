"""The life of a lease: begun once, ended once, released when it runs out, fenced ever after."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from queuemgr.base.errors import LeaseLost, StepFailed
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows import retry_policy
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.outcomes import Done, Failed, Interrupted, Snoozed
from queuemgr.lifecycle import begin, finish, leases, usage
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.finish import Finish
from queuemgr.models import Attempt, Execution, Lease, Outcome, State, Worker
from queuemgr.worker import expiry, housekeeping, process_identity, registration
from queuemgr.worker.work import Work
from tests.integration.conftest import let_time_pass
from tests.usage_rows import requests_spent

pytestmark = pytest.mark.django_db(transaction=True)
Played = Callable[..., Any]
Probes = Callable[..., list[Execution]]


def run_out(**which: Any) -> None:
    Lease.objects.filter(**which).update(expires_at=database_now() - timedelta(seconds=1))


def test_a_message_delivered_three_times_starts_its_lease_once(played: Played, probes: Probes) -> None:
    """The same message may come again, and late (celery/celery#3270)."""
    worker = played(slots=1)
    probes(1)
    lease = Lease.objects.get().pk
    begun = [begin.begin([lease], worker.row.pk).grants for _ in range(3)]
    assert [len(grants) for grants in begun] == [1, 0, 0]


def test_a_freed_slot_is_granted_its_next_lease_without_a_message(
    played: Played, probes: Probes, sent: list[Any]
) -> None:
    worker = played(slots=1)
    probes(2)
    (first,) = worker.begin_all()
    sent.clear()
    (second,) = worker.end(first)
    assert second.key == "p1"
    assert sent == []
    assert Execution.objects.get(key="p1").state == State.RUNNING


def test_a_slot_that_takes_no_more_work_is_assigned_none_and_the_next_lease_waits_unstarted(
    played: Played, probes: Probes, sent: list[Any]
) -> None:
    worker = played(slots=1)
    probes(2)
    (first,) = worker.begin_all()
    sent.clear()
    assert worker.end(first, next_too=False) == []
    assert [grant.key for grant in sent] == []
    assert Lease.objects.unstarted().count() == 1


def test_a_worker_that_lost_its_lease_stores_nothing(played: Played, probes: Probes) -> None:
    """A worker frozen beyond its lease comes back with a result: it is too late."""
    worker = played(slots=1)
    probes(1)
    (grant,) = worker.begin_all()
    run_out()
    housekeeping.tick()
    stored: list[str] = []
    worker.end(grant, Done({"found": 1}, store=lambda: stored.append("late")))
    execution = Execution.objects.get()
    assert stored == []
    assert execution.context == {}
    assert [a.outcome for a in Attempt.objects.all()] == [Outcome.LOST]


def test_expiry_ends_exactly_the_expired_leases(played: Played, probes: Probes) -> None:
    worker = played(slots=3)
    probes(3)
    worker.begin_all()
    run_out(execution__key="p1")
    lost = expiry.look().lost
    assert [end.lease.key for end in lost] == ["p1"]
    assert set(Lease.objects.values_list("execution__key", flat=True)) == {"p0", "p2"}
    assert Execution.objects.get(key="p1").state == State.WAITING


def test_a_lease_no_worker_started_is_granted_again_and_is_no_attempt(played: Played, probes: Probes) -> None:
    """A message lost in the broker costs time, nothing else."""
    played(slots=1)
    probes(1)
    before = Lease.objects.get().pk
    run_out()
    housekeeping.tick()
    assert Lease.objects.get().pk != before
    assert not Attempt.objects.exists()


def test_work_lost_with_its_worker_three_times_is_poison(played: Played, probes: Probes) -> None:
    """Not redelivered for ever."""
    worker = played(slots=1)
    probes(1)
    for _ in range(retry_policy.MAX_LOSSES):
        worker.begin_all()
        run_out()
        housekeeping.tick()
    execution = Execution.objects.get()
    assert (execution.state, execution.error_kind) == (State.FAILED, "poison")
    assert [a.outcome for a in Attempt.objects.all()] == [Outcome.LOST] * 3


def test_work_lost_beside_poison_is_not_failed_as_poison(played: Played, probes: Probes) -> None:
    """With threads a deadly step takes what runs beside it down; only it is to blame."""
    worker = played(slots=2)
    probes(2)
    for _ in range(retry_policy.MAX_LOSSES):
        let_time_pass(Execution.objects.waiting())
        dispatch()
        worker.begin_all()
        run_out()
        housekeeping.tick()
    assert {e.state for e in Execution.objects.all()} <= {State.WAITING, State.LEASED}
    for _ in range(2):
        leases.revoke_unstarted(Lease.objects.values_list("pk", flat=True))
        let_time_pass(Execution.objects.filter(key="p0"))
        Execution.objects.filter(key="p1").update(run_after=database_now() + timedelta(hours=1))
        dispatch()
        worker.begin_all()
        run_out()
        housekeeping.tick()
    assert Execution.objects.get(key="p0").error_kind == "poison"
    assert Execution.objects.get(key="p1").state == State.WAITING


def test_executions_lost_together_are_recognised_though_their_leases_expire_at_different_ticks(
    played: Played, probes: Probes
) -> None:
    """Renewed at different times they expire one after the other; they were lost together all the same."""
    worker = played(slots=2)
    probes(2)
    for _ in range(retry_policy.MAX_LOSSES):
        let_time_pass(Execution.objects.waiting())
        dispatch()
        worker.begin_all()
        for key in ("p0", "p1"):
            run_out(execution__key=key)
            expiry.look()
    assert {e.state for e in Execution.objects.all()} == {State.WAITING}


def test_a_restarted_worker_frees_the_leases_of_its_dead_predecessor(played: Played, probes: Probes) -> None:
    """The lease is the fallback; a known death frees the slot at once, though its pid was given again."""
    worker = played(slots=1)
    probes(1)
    worker.begin_all()
    here = process_identity.this_process()
    Worker.objects.filter(pk=worker.row.pk).update(
        boot_id=here.boot_id, pid_namespace=here.pid_namespace, process_started=here.started + 1, pid=here.pid
    )
    registration.register(worker.row.name, worker.row.queues, 1)
    assert [a.outcome for a in Attempt.objects.all()] == [Outcome.LOST]
    assert not Lease.objects.filter(worker=worker.row).exists()


def test_a_retry_waits_in_the_database_and_keeps_queue_priority_and_limit_key(
    played: Played, probes: Probes
) -> None:
    worker = played(slots=1)
    probes(1, priority=2, phase="wrap", limit_key="host:a")
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("network", "reset"))
    execution = Execution.objects.get()
    assert execution.state == State.WAITING
    assert execution.run_after > database_now() + timedelta(seconds=4)
    assert (execution.phase, execution.priority) == ("wrap", 2)
    assert execution.route is not None
    assert execution.route.limit_keys == "host:a"
    assert execution.wait_reason == "attempt 2 of 6 after network"


def test_a_retry_after_is_obeyed_to_the_second(played: Played, probes: Probes) -> None:
    worker = played(slots=1)
    probes(1)
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("rate_limited", "429", retry_after=1800))
    wait = Execution.objects.get().run_after - database_now()
    assert timedelta(seconds=1795) < wait < timedelta(seconds=1815)


def test_attempts_are_counted_per_step_and_end_in_a_failure_a_person_sees(
    played: Played, probes: Probes
) -> None:
    """Giving up is reached, and once."""
    worker = played(slots=1)
    probes(1)
    for _ in range(3):
        let_time_pass(Execution.objects.all())
        dispatch()
        (grant,) = worker.begin_all()
        worker.end(grant, Failed("bad_answer", "not the schema"))
    execution = Execution.objects.get()
    assert (execution.state, execution.error_kind) == (State.FAILED, "bad_answer")
    assert [a.outcome for a in Attempt.objects.all()] == ["retried", "retried", "failed"]


@pytest.mark.parametrize("result", [Interrupted("shutdown"), Snoozed(0, "not yet")])
def test_an_interrupted_or_snoozed_step_is_no_failed_attempt(
    result: Any, played: Played, probes: Probes
) -> None:
    """Ordinary back-pressure is not stored as failure."""
    worker = played(slots=1)
    probes(1)
    (grant,) = worker.begin_all()
    for _ in range(12):
        (grant,) = worker.end(grant, result)
    assert Execution.objects.get().state == State.RUNNING
    assert not Attempt.objects.filter(outcome__in=("failed", "retried")).exists()


def test_a_step_snoozed_under_a_new_limit_key_resumes_under_that_limit_and_stores_its_results(
    played: Played, probes: Probes
) -> None:
    """A download that ends at a landing page continues at another host, under that host's limit."""
    worker = played(slots=1)
    probes(1)
    (grant,) = worker.begin_all()
    stored: list[str] = []
    snoozed = Snoozed(
        0, "continues on another host", {"limit_key": "host:b.org:443"}, lambda: stored.append("url")
    )
    (again,) = worker.end(grant, snoozed)
    assert stored == ["url"]
    assert again.context == {"limit_key": "host:b.org:443"}
    assert Lease.objects.get().limit_keys == "host:b.org:443"
    assert Attempt.objects.get().error_message == "continues on another host"


def test_a_store_that_fails_fails_its_own_step_and_no_other_of_the_transaction(
    played: Played, probes: Probes
) -> None:
    worker = played(slots=2)
    probes(2)
    bad, good = worker.begin_all()

    def explode() -> None:
        Execution.objects.create(flow="probe", key="p0", finished_at=database_now())

    finish.finish_batch([Finish(bad.lease_id, Done(store=explode)), Finish(good.lease_id, Done())], None)
    assert Execution.objects.get(key=good.key).state == State.DONE
    assert Execution.objects.get(key=bad.key).error_kind == "unexpected"


def test_result_and_end_of_lease_commit_together(
    played: Played, probes: Probes, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = played(slots=1)
    probes(1)
    (grant,) = worker.begin_all()
    store = partial(Worker.objects.filter(pk=worker.row.pk).update, host="stored")

    def fail(*ended: Any) -> None:
        raise RuntimeError("the plug is pulled")

    with monkeypatch.context() as patched:
        patched.setattr(usage, "charge", fail)
        with pytest.raises(RuntimeError):
            worker.end(grant, Done(store=store))
    assert Worker.objects.get(pk=worker.row.pk).host == "test"
    assert Lease.objects.filter(pk=grant.lease_id).exists()


def test_the_budget_is_never_exceeded_and_lost_work_is_charged_what_it_sent(
    played: Played, probes: Probes, configure: Callable[..., None]
) -> None:
    """Reserved when granted, settled when ended, given back when never begun."""
    configure(daily_budget=3)
    worker = played(slots=5)
    probes(5, requests=1)
    begun = worker.begin_all()
    assert len(begun) == 3
    Work(begun[0], AbortSignal()).record_requests()
    run_out(pk=begun[0].lease_id)
    housekeeping.tick()
    for grant in begun[1:]:
        worker.end(grant)
    assert requests_spent() == 3
    assert not Lease.objects.exists()
    assert Execution.objects.waiting().count() == 3


@pytest.mark.parametrize("ends", ["lost", "interrupted"])
def test_what_an_interrupted_step_reserved_and_did_not_send_is_refunded(
    ends: str, played: Played, probes: Probes, configure: Callable[..., None]
) -> None:
    configure(daily_budget=3)
    worker = played(slots=1)
    probes(2, requests=3)
    (grant,) = worker.begin_all()
    Work(grant, AbortSignal()).record_requests(2)
    if ends == "lost":
        run_out()
        housekeeping.tick()
    else:
        worker.end(grant, Interrupted("shutdown"))
    assert requests_spent() == 2
    assert not Lease.objects.exists(), "1 is left, and each would take 3"


def test_a_step_cannot_send_more_requests_than_it_reserved(played: Played, probes: Probes) -> None:
    worker = played(slots=1)
    probes(1, requests=2)
    (grant,) = worker.begin_all()
    work = Work(grant, AbortSignal())
    work.record_requests(2)
    with pytest.raises(StepFailed, match="more requests would exceed what the step reserved"):
        work.record_requests()
    Lease.objects.all().delete()
    with pytest.raises(LeaseLost):
        work.record_requests()


def test_a_step_that_used_fewer_requests_than_reserved_is_refunded_the_rest(
    played: Played, probes: Probes, configure: Callable[..., None]
) -> None:
    configure(daily_budget=4)
    worker = played(slots=5)
    probes(3, requests=2)
    one, two = worker.begin_all()
    (three,) = worker.end(one, Done(cost=0))
    worker.end(two)
    worker.end(three)
    assert requests_spent() == 4


def test_secrets_never_reach_error_rows(played: Played, probes: Probes) -> None:
    from queuemgr.base.redaction import register_secret

    register_secret("sk-very-secret")
    worker = played(slots=1)
    probes(1)
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("bad_request", "401 for https://u:hunter22@h/ key sk-very-secret \x00"))
    rows = [Execution.objects.get().error_message, Attempt.objects.get().error_message]
    assert all("secret" not in row and "hunter22" not in row and "\x00" not in row for row in rows)


def test_the_database_refuses_a_second_lease_and_a_second_record_of_one() -> None:
    from django.db import IntegrityError

    columns = {c.name for c in Lease._meta.constraints} | {c.name for c in Execution._meta.constraints}
    assert {"started_on_a_worker", "one_execution_per_key", "waiting_has_a_route"} <= columns
    assert Lease._meta.get_field("execution").unique
    assert Attempt._meta.get_field("lease_id").unique
    with pytest.raises(IntegrityError):
        Execution.objects.create(flow="probe", key="x", state=State.WAITING)
