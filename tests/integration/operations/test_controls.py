"""What a person may do, and that each of it is recorded."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import transaction

from queuemgr.base.errors import BadInput
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import HIGH, LOW
from queuemgr.flows.outcomes import Done, Failed, Interrupted, Snoozed
from queuemgr.lifecycle import finish
from queuemgr.lifecycle.finish import Finish
from queuemgr.models import AuditEntry, Execution, Lease, Limit, State
from queuemgr.operations import controls, executions
from queuemgr.operations.controls import Actor
from queuemgr.reporting import explain
from queuemgr.scheduling import limit_rows

pytestmark = pytest.mark.django_db(transaction=True)
ANN = Actor("ann", "admin", "because")


def test_cancelling_waiting_work_ends_it_at_once_and_is_recorded(probes: Any) -> None:
    (execution,) = probes(1)
    assert executions.cancel([execution], ANN) == 1
    execution.refresh_from_db()
    assert execution.state == State.CANCELLED
    change = AuditEntry.objects.get()
    assert (change.actor, change.action, change.target) == ("ann", "cancel", "probe/p0")
    assert (change.before, change.after, change.reason) == (
        {"state": "waiting"}, {"state": "cancelled"}, "because",
    )  # fmt: skip


def test_cancelling_leased_work_withdraws_the_lease(played: Any, probes: Any) -> None:
    played(slots=1)
    (execution,) = probes(1)
    assert executions.cancel([execution], ANN) == 1
    assert not Lease.objects.exists()
    assert Execution.objects.get().state == State.CANCELLED


@pytest.mark.parametrize("result", [Interrupted("cancelled"), Failed("network", "x")])
def test_cancelling_running_work_signals_it_and_it_ends_cancelled(
    result: Any, played: Any, probes: Any
) -> None:
    worker = played(slots=1)
    (execution,) = probes(1)
    (grant,) = worker.begin_all()
    executions.cancel([execution], ANN)
    assert Execution.objects.get().state == State.RUNNING
    worker.end(grant, result)
    assert Execution.objects.get().state == State.CANCELLED


def test_work_that_succeeds_despite_a_cancel_is_done(played: Any, probes: Any) -> None:
    worker = played(slots=1)
    (execution,) = probes(1)
    (grant,) = worker.begin_all()
    executions.cancel([execution], ANN)
    worker.end(grant, Done())
    assert Execution.objects.get().state == State.DONE


def test_a_retry_continues_at_the_failed_step_with_new_attempts(played: Any, probes: Any) -> None:
    """And makes no copy."""
    worker = played(slots=1)
    (execution,) = probes(1, phase="wrap")
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("not_found", "404"))
    assert executions.retry(Execution.objects.all(), ANN) == 1
    execution = Execution.objects.get()
    assert (execution.phase, execution.state) == ("wrap", State.LEASED)
    assert execution.error_message == "404"
    assert executions.retry(Execution.objects.all(), ANN) == 0


def test_a_priority_raised_while_waiting_moves_the_work_to_its_new_queue(played: Any, probes: Any) -> None:
    (execution,) = probes(1, priority=LOW)
    executions.set_priority([execution], HIGH, ANN)
    execution.refresh_from_db()
    assert execution.route is not None
    assert execution.route.priority == HIGH


def test_a_pause_says_who_and_why_and_ends_by_itself(played: Any, probes: Any) -> None:
    played(slots=1)
    controls.pause("prep.normal", ANN, until=database_now() + timedelta(seconds=60))
    (execution,) = probes(1)
    assert "prep.normal paused by ann: because, until" in explain.reasons().of(execution)
    assert not Lease.objects.exists()
    controls.pause("prep.normal", ANN, until=database_now() - timedelta(seconds=1))
    assert "paused" not in explain.reasons().of(execution)


@pytest.mark.parametrize("target", ["everything", "prep", "prep.normal", "host:a"])
def test_resuming_starts_what_waited_at_once(target: str, played: Any, probes: Any) -> None:
    played(slots=1)
    controls.pause(target, ANN)
    probes(1, limit_key="host:a")
    assert not Lease.objects.exists()
    controls.resume(target, ANN)
    assert Lease.objects.count() == 1
    assert [c.action for c in AuditEntry.objects.order_by("pk")] == ["pause", "resume"]


def test_a_key_paused_by_name_keeps_the_fields_of_its_pattern(played: Any) -> None:
    played()
    controls.pause("host:a", ANN)
    assert Limit.objects.get(name="host:a").max_running == 4


def test_pausing_an_unknown_target_is_refused_with_the_known_ones(played: Any) -> None:
    played()
    with pytest.raises(BadInput, match=r"nothing is called 'prepp'.*prep\.high"):
        controls.pause("prepp", ANN)


def test_raising_a_limit_starts_waiting_work_at_once(played: Any, probes: Any) -> None:
    played(slots=8)
    controls.edit_limit("phase:prep", ANN, max_running=2)
    probes(5)
    assert Lease.objects.count() == 2
    controls.edit_limit("phase:prep", ANN, max_running=4)
    assert Lease.objects.count() == 4
    assert AuditEntry.objects.latest("pk").before == {"max_running": 2}


def test_a_limit_lowered_while_busy_drains_and_starts_nothing(played: Any, probes: Any) -> None:
    worker = played(slots=8)
    probes(8)
    begun = worker.begin_all()
    controls.edit_limit("phase:prep", ANN, max_running=4)
    handed = [worker.end(grant) for grant in begun[:4]]
    assert handed == [[], [], [], []]
    assert Lease.objects.count() == 4


def test_an_impossible_limit_is_refused_with_the_reason(played: Any) -> None:
    played()
    with pytest.raises(ValidationError, match="reserved_high must be smaller"):
        controls.edit_limit("fleet", ANN, max_running=3, reserved_high=3)


def test_an_operators_edit_survives_a_restart_and_a_changed_setting_still_takes_effect(
    played: Any, configure: Callable[..., None]
) -> None:
    played()
    controls.edit_limit("phase:prep", ANN, max_running=7)
    limit_rows.sync()
    assert Limit.objects.get(name="phase:prep").max_running == 7
    configure(max_prep=11)
    limit_rows.sync()
    assert Limit.objects.get(name="phase:prep").max_running == 11


def test_a_limit_given_on_the_command_line_wins_over_an_operators_edit(
    played: Any, configure: Callable[..., None]
) -> None:
    configure(max_prep=11)
    played()
    controls.edit_limit("phase:prep", ANN, max_running=7)
    limit_rows.sync(forced={"max_prep"})
    assert Limit.objects.get(name="phase:prep").max_running == 11


def test_a_retry_stays_a_retry_when_its_priority_is_changed(played: Any, probes: Any) -> None:
    """Or it would leave the retry budget by the back door."""
    worker = played(slots=1)
    (execution,) = probes(1)
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("network", "refused"))
    executions.set_priority([execution], HIGH, ANN)
    route = Execution.objects.select_related("route").get().route
    assert route
    assert (route.priority, route.retrying) == (HIGH, True)


@pytest.mark.only_on("postgres", why="needs two connections")
def test_a_cancel_concurrent_with_a_lock_free_finish_is_not_lost(
    played: Any, probes: Any, in_threads: Callable[..., list[Any]]
) -> None:
    """The ending has taken the lease and not committed: the cancel waits, and meets what it left."""
    worker = played(slots=1)
    (execution,) = probes(1)
    (grant,) = worker.begin_all()
    taken = threading.Event()

    def both(number: int) -> None:
        if number == 0:
            with transaction.atomic():
                finish.finish_leases([Finish(grant.lease_id, Snoozed(60, "later"))], database_now())
                taken.set()
                time.sleep(0.5)
        else:
            taken.wait(10)
            executions.cancel([execution], ANN)

    in_threads(2, both)
    assert Execution.objects.get().state == State.CANCELLED


def test_resuming_a_mistyped_limit_is_refused_and_makes_no_row() -> None:
    limit_rows.sync()
    before = Limit.objects.count()
    with pytest.raises(BadInput, match=r"'hots:example\.org' is not paused and its breaker is closed"):
        controls.resume("hots:example.org", ANN)
    assert Limit.objects.count() == before


@pytest.mark.only_on("postgres", why="needs two connections")
def test_a_finish_that_waited_for_a_priority_change_uses_the_new_priority(
    played: Any, probes: Any, in_threads: Callable[..., list[Any]]
) -> None:
    """The priority is set and not committed: the ending waits, and puts the work on that one's route."""
    worker = played(slots=1)
    (execution,) = probes(1)
    (grant,) = worker.begin_all()
    raised = threading.Event()

    def both(number: int) -> None:
        with transaction.atomic():
            if number == 0:
                executions.set_priority([execution], HIGH, ANN)
                raised.set()
                time.sleep(0.5)
            else:
                raised.wait(10)
                finish.finish_leases([Finish(grant.lease_id, Snoozed(60, "later"))], database_now())

    in_threads(2, both)
    execution = Execution.objects.select_related("route").get()
    assert execution.route
    assert (execution.priority, execution.route.priority) == (HIGH, HIGH)
