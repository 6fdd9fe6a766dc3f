"""What a person may do with executions: skip, reschedule, restart, and retry with another payload."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from queuemgr.base.errors import BadInput, IllegalMove, NeverFits
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import HIGH, NORMAL
from queuemgr.flows.outcomes import Done, Failed
from queuemgr.lifecycle import states
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import AuditEntry, Execution, Lease, Route, State
from queuemgr.operations import executions
from queuemgr.operations.controls import Actor
from queuemgr.reporting import explain
from tests.integration.conftest import let_time_pass

pytestmark = pytest.mark.django_db(transaction=True)
ANN = Actor("ann", "admin", "because")


def state_of(execution: Execution) -> str:
    return str(Execution.objects.get(pk=execution.pk).state)


@pytest.fixture
def failed(played: Any, probes: Any) -> Execution:
    """A probe that failed for good, in a phase of its own choice."""
    worker = played(slots=1)
    (execution,) = probes(1, phase="wrap", limit_key="host:a")
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("not_found", "404"))
    Execution.objects.update(context={"found": 1})
    return Execution.objects.get(pk=execution.pk)


def test_skipping_waiting_work_ends_it_and_says_who_and_why(probes: Any) -> None:
    (execution,) = probes(1)
    assert executions.skip([execution], ANN) == 1
    execution.refresh_from_db()
    assert execution.state == State.SKIPPED
    assert explain.reasons().of(execution) == "skipped by ann: because"
    change = AuditEntry.objects.get()
    assert (change.action, change.before, change.after) == (
        "skip", {"state": "waiting"}, {"state": "skipped"},
    )  # fmt: skip


def test_skipping_leased_work_withdraws_the_lease(played: Any, probes: Any) -> None:
    played(slots=1)
    (execution,) = probes(1)
    assert executions.skip([execution], ANN) == 1
    assert not Lease.objects.exists()
    assert state_of(execution) == State.SKIPPED


def test_skip_and_reschedule_leave_running_work_alone(played: Any, probes: Any) -> None:
    worker = played(slots=1)
    (execution,) = probes(1)
    worker.begin_all()
    assert executions.skip([execution], ANN) == 0
    assert executions.set_run_after([execution], database_now() + timedelta(hours=1), ANN) == 0
    assert state_of(execution) == State.RUNNING
    assert not AuditEntry.objects.exists()


def test_a_failed_execution_can_be_skipped_and_keeps_its_error(failed: Execution) -> None:
    assert executions.skip([failed], ANN) == 1
    failed.refresh_from_db()
    assert (failed.state, failed.error_kind) == (State.SKIPPED, "not_found")
    assert explain.reasons().of(failed) == "skipped by ann: because"


def test_done_work_is_never_skipped_retried_or_restarted(played: Any, probes: Any) -> None:
    worker = played(slots=1)
    (execution,) = probes(1)
    (grant,) = worker.begin_all()
    worker.end(grant, Done())
    for verb in (executions.skip, executions.cancel, executions.retry, executions.retry_from_start):
        assert verb([execution], ANN) == 0
    assert executions.retry_with_payload(execution, {}, ANN) == 0
    with pytest.raises(IllegalMove):
        states.move([execution.pk], State.SKIPPED, finished_at=database_now())


def test_rescheduled_work_starts_at_its_time_and_says_who_rescheduled_it(played: Any, probes: Any) -> None:
    played(slots=1)
    (execution,) = probes(1)
    later = database_now() + timedelta(hours=2)
    assert executions.set_run_after([execution], later, ANN) == 1
    execution.refresh_from_db()
    assert (execution.state, execution.run_after) == (State.WAITING, later)
    assert "(rescheduled by ann: because)" in explain.reasons().of(execution)
    assert not Lease.objects.exists()
    let_time_pass(Execution.objects.all())
    dispatch()
    assert Lease.objects.count() == 1


def test_work_brought_forward_starts_at_once_though_its_route_was_parked(played: Any, probes: Any) -> None:
    (execution,) = probes(1)
    executions.set_run_after([execution], database_now() + timedelta(hours=2), ANN)
    played(slots=1)
    dispatch()
    Route.objects.update(head_at=database_now() + timedelta(hours=2))
    assert Route.objects.exclude(parked_on="").exists()
    assert executions.set_run_after([execution], database_now(), ANN) == 1
    assert Lease.objects.count() == 1
    assert not Route.objects.filter(head_at__gt=database_now()).exists()


def test_due_work_rescheduled_to_now_keeps_its_position(probes: Any) -> None:
    (execution,) = probes(1)
    assert executions.set_run_after([execution], database_now(), ANN) == 0
    assert Execution.objects.get().run_after == execution.run_after


@pytest.mark.parametrize(
    ("when", "says"),
    [
        (datetime(2026, 1, 1), "no time zone"),  # noqa: DTZ001 - that is the point
        (database_now, "ten years"),
    ],
)
def test_an_impossible_time_is_refused(when: Any, says: str, probes: Any) -> None:
    (execution,) = probes(1)
    moment = when if isinstance(when, datetime) else when() + timedelta(days=36_500)
    with pytest.raises(BadInput, match=says):
        executions.set_run_after([execution], moment, ANN)


def test_an_invalid_argument_is_refused_even_when_there_is_nothing_to_change() -> None:
    with pytest.raises(BadInput, match="ten years"):
        executions.set_run_after([], database_now() + timedelta(days=36_500), ANN)
    with pytest.raises(BadInput, match="priority 7 is not one of"):
        executions.set_priority([], 7, ANN)


def test_a_restart_clears_the_results_of_steps_and_keeps_the_attempts(failed: Execution) -> None:
    Execution.objects.update(payload={"phase": "prep"})
    assert executions.retry_from_start([failed], ANN) == 1
    again = Execution.objects.get()
    assert (again.phase, again.context, again.resumed) == ("prep", {}, False)
    assert (again.state, again.attempts.count()) == (State.LEASED, 1)
    change = AuditEntry.objects.get()
    assert (change.action, change.before, change.after) == (
        "retry from start",
        {"state": "failed", "step": "wrap/probe"},
        {"state": "waiting", "step": "prep/probe"},
    )


def test_work_whose_flow_has_no_first_step_is_left_alone(failed: Execution) -> None:
    Execution.objects.update(payload={"phase": "gone"})
    assert executions.retry_from_start([failed], ANN) == 0
    Execution.objects.update(flow="gone")
    assert executions.retry_from_start([failed], ANN) == 0


def test_a_retry_with_another_payload_waits_on_the_route_that_payload_asks_for(failed: Execution) -> None:
    payload = {"phase": "wrap", "limit_key": "host:b"}
    assert executions.retry_with_payload(failed, payload, ANN) == 1
    again = Execution.objects.select_related("route").get()
    assert again.route
    assert (again.payload, again.route.limit_keys) == (payload, "host:b")
    assert again.context == {"found": 1}


def test_an_edit_of_a_payload_is_recorded_with_secrets_masked(failed: Execution) -> None:
    url = "https://ann:hidden@a.example/p.pdf?X-Signature=abc"
    executions.retry_with_payload(failed, {"phase": "wrap", "url": url}, ANN)
    change = AuditEntry.objects.get(action=executions.EDIT_PAYLOAD)
    assert change.before == {"payload": {"limit_key": "host:a"}}
    assert change.after == {"payload": {"url": "https://***:***@a.example/p.pdf?***"}}
    assert Execution.objects.get().payload["url"] == url


REFUSED: tuple[tuple[Any, str], ...] = (
    ([1], "a payload is a JSON object"),
    ({"a": "\x00"}, "NUL"),
    ({"a": "\ud800"}, "surrogate"),
    ({"a": float("nan")}, "NaN"),
    ({"a": "x" * 70_000}, "at most 65,536"),
    ({"phase": "wrap", "weight": "heavy"}, "cannot work with this payload"),
)


def test_a_payload_that_cannot_work_is_refused_and_changes_nothing(failed: Execution) -> None:
    for payload, says in REFUSED:
        with pytest.raises(BadInput, match=says):
            executions.retry_with_payload(failed, payload, ANN)
    assert Execution.objects.get().payload == failed.payload
    assert state_of(failed) == State.FAILED
    assert not AuditEntry.objects.exists()


def test_a_payload_no_limit_could_ever_admit_is_refused(failed: Execution) -> None:
    with pytest.raises(NeverFits):
        executions.retry_with_payload(failed, {"phase": "wrap", "weight": 100_000}, ANN)
    assert state_of(failed) == State.FAILED


def test_a_priority_set_on_a_failed_execution_is_that_of_its_retry(failed: Execution) -> None:
    assert executions.set_priority([failed], HIGH, ANN) == 1
    executions.retry([failed], ANN)
    assert Route.objects.get(pk=Execution.objects.get().route_id).priority == HIGH


def test_done_work_keeps_its_priority(played: Any, probes: Any) -> None:
    worker = played(slots=1)
    (execution,) = probes(1)
    (grant,) = worker.begin_all()
    worker.end(grant)
    assert state_of(execution) == State.DONE
    assert executions.set_priority([execution], HIGH, ANN) == 0
    assert Execution.objects.get().priority == NORMAL
    assert not AuditEntry.objects.exists()


def test_a_leased_retry_stays_a_retry_when_its_priority_is_changed(played: Any, probes: Any) -> None:
    """Its lease is withdrawn, and it waits on a route for retries, so it keeps to their share."""
    worker = played(slots=1)
    (execution,) = probes(1)
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("network", "refused"))
    let_time_pass(Execution.objects.all())
    dispatch()
    assert Lease.objects.get().retrying
    executions.set_priority([execution], HIGH, ANN)
    assert Route.objects.get(pk=Execution.objects.get().route_id).retrying
