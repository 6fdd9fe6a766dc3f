"""What was before is put back, once, if nobody has changed it since."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from queuemgr.base.errors import CannotUndo
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows import callbacks
from queuemgr.flows.flow import HIGH, NORMAL
from queuemgr.flows.retry_policy import POLICIES
from queuemgr.models import LIMIT_FIELDS, AuditEntry, Execution, Lease, Limit, Queue, RetryPolicy
from queuemgr.operations import controls, executions
from queuemgr.operations.controls import Actor, field_values
from queuemgr.operations.undo import undo
from queuemgr.scheduling import limit_rows, retry_policies

pytestmark = pytest.mark.django_db
ANN, BOB = Actor("ann", "command", "because"), Actor("bob", "admin")


@pytest.fixture(autouse=True)
def _rows(sent: list[Any]) -> None:
    limit_rows.sync()


def last() -> AuditEntry:
    return AuditEntry.objects.latest("pk")


def limit(name: str) -> Limit:
    return Limit.objects.get(name=name)


def test_undo_restores_the_fields_of_an_edited_limit_and_is_recorded() -> None:
    controls.edit_limit("phase:prep", ANN, max_running=5, rate="1/3s")
    undone = undo(last(), BOB)
    assert (limit("phase:prep").max_running, limit("phase:prep").rate) == (0, "")
    assert (undone.actor, undone.action, undone.reason) == (
        "bob", "edit limit", f"undoes change {undone.undoes_id}",
    )  # fmt: skip
    assert (undone.before["max_running"], undone.after["max_running"]) == (5, 0)


def test_an_undo_can_itself_be_undone() -> None:
    controls.edit_limit("phase:prep", ANN, max_running=5)
    undo(undo(last(), BOB), ANN)
    assert limit("phase:prep").max_running == 5


def test_a_change_is_undone_at_most_once() -> None:
    controls.edit_limit("phase:prep", ANN, max_running=5)
    change = last()
    undo(change, BOB)
    controls.edit_limit("phase:prep", ANN, max_running=5)
    with pytest.raises(CannotUndo, match="undone already, by bob at 20"):
        undo(change, BOB)


def test_a_change_overwritten_since_is_not_undone_and_the_later_actor_is_named() -> None:
    controls.edit_limit("phase:prep", ANN, max_running=5)
    change = last()
    controls.edit_limit("phase:prep", BOB, max_running=7)
    because = r"max_running is 7 now, and this change left it 5; bob did that at .* \(change \d+\)"
    with pytest.raises(CannotUndo, match=because):
        undo(change, ANN)
    assert limit("phase:prep").max_running == 7
    assert AuditEntry.objects.count() == 2


def test_undo_leaves_other_fields_changed_since_as_they_are() -> None:
    controls.edit_limit("phase:prep", ANN, max_running=5)
    change = last()
    controls.edit_limit("phase:prep", BOB, breaker_after=3)
    undo(change, ANN)
    assert (limit("phase:prep").max_running, limit("phase:prep").breaker_after) == (0, 3)


def test_an_undo_that_contradicts_a_later_edit_is_refused_with_the_reason() -> None:
    controls.edit_limit("phase:prep", ANN, max_running=2)
    controls.edit_limit("phase:prep", ANN, max_running=9)
    change = last()
    controls.edit_limit("phase:prep", BOB, reserved_high=4)
    with pytest.raises(CannotUndo, match=r"cannot be restored: reserved_high must be smaller"):
        undo(change, ANN)
    assert limit("phase:prep").max_running == 9


def test_a_row_made_by_an_edit_is_removed_and_restored_with_all_its_fields() -> None:
    controls.edit_limit("host:a", ANN, rate="1/3s")
    whole = field_values(limit("host:a"), LIMIT_FIELDS)
    assert whole["max_running"] == limit("host:*").max_running
    removed = undo(last(), BOB)
    assert not Limit.objects.filter(name="host:a").exists()
    restored = undo(removed, BOB)
    assert field_values(limit("host:a"), LIMIT_FIELDS) == whole
    undo(restored, BOB)
    assert not Limit.objects.filter(name="host:a").exists()


@pytest.mark.parametrize(
    ("meanwhile", "message"),
    [
        (lambda: controls.edit_limit("host:a", BOB, share=3), "share is 3 now.*bob did that"),
        (lambda: controls.pause("host:a", BOB), "it is paused by bob now.*running; bob did that"),
    ],
    ids=["edited", "paused"],
)
def test_a_row_made_by_an_edit_stays_when_other_fields_were_set_since(
    meanwhile: Callable[[], object], message: str
) -> None:
    controls.edit_limit("host:a", ANN, rate="1/3s")
    change = last()
    meanwhile()
    with pytest.raises(CannotUndo, match=message):
        undo(change, ANN)
    assert limit("host:a")


def test_an_undone_pause_lets_work_start_and_an_undone_resume_stops_it_as_before(
    make_worker: Any, django_capture_on_commit_callbacks: Any
) -> None:
    from queuemgr.lifecycle.enqueue import enqueue

    make_worker(slots=1)
    until = database_now() + timedelta(hours=1)
    controls.pause("prep", ANN, until)
    enqueue("probe", "doc:1")
    with django_capture_on_commit_callbacks(execute=True):
        undone = undo(last(), BOB)
    assert Lease.objects.count() == 1
    undo(undone, BOB)
    row = limit("phase:prep")
    assert (row.paused_by, row.pause_reason, row.paused_until) == ("ann", "because", until)


@pytest.mark.parametrize("target", ["prep.high", "phase:prep", "fleet"])
def test_undoing_a_resume_restores_who_paused_and_why(target: str) -> None:
    controls.pause(target, ANN)
    controls.resume(target, BOB)
    undo(last(), BOB)
    row = Queue.objects.filter(name=target).first() or limit(target)
    assert row.pause_sentence() == "paused by ann: because"


def test_a_resume_is_not_undone_after_the_pause_would_have_ended() -> None:
    controls.pause("prep.high", ANN, database_now() - timedelta(seconds=1))
    controls.resume("prep.high", ANN)
    with pytest.raises(CannotUndo, match="that pause was to end at 20"):
        undo(last(), BOB)


def test_a_pause_that_was_resumed_since_is_not_undone() -> None:
    controls.pause("prep.high", ANN)
    change = last()
    controls.resume("prep.high", BOB)
    with pytest.raises(CannotUndo, match=r"it is running now.*paused by ann: because; bob did that"):
        undo(change, ANN)


def test_a_row_made_by_a_pause_is_removed_with_it_and_the_pattern_applies_again() -> None:
    controls.pause("host:a", ANN)
    removed = undo(last(), BOB)
    assert not Limit.objects.filter(name="host:a").exists()
    undo(removed, BOB)
    assert limit("host:a").pause_sentence() == "paused by ann: because"


def test_undo_restores_the_cap_of_a_queue() -> None:
    controls.edit_queue("prep.low", ANN, max_pending=10)
    undo(last(), BOB)
    assert Queue.objects.get(name="prep.low").max_pending == 0


def test_undo_restores_the_fields_of_an_edited_policy() -> None:
    controls.edit_policy("network", "", ANN, max_attempts=2, base=1.5)
    undo(last(), BOB)
    assert retry_policies.policy_for("network", "prep") == POLICIES["network"]


def test_undo_removes_a_policy_made_for_a_phase_and_restores_a_deleted_one() -> None:
    controls.edit_policy("network", "prep", ANN, max_attempts=2)
    removed = undo(last(), BOB)
    assert not RetryPolicy.objects.filter(phase="prep").exists()
    undo(removed, BOB)
    assert retry_policies.policy_for("network", "prep").max_attempts == 2
    controls.delete_policy("network", "prep", ANN)
    undo(last(), BOB)
    assert retry_policies.policy_for("network", "prep").max_attempts == 2


def test_a_policy_made_again_since_it_was_deleted_is_left_alone() -> None:
    controls.edit_policy("network", "prep", ANN, max_attempts=2)
    controls.delete_policy("network", "prep", ANN)
    change = last()
    controls.edit_policy("network", "prep", BOB, max_attempts=4)
    with pytest.raises(CannotUndo, match="bob did that"):
        undo(change, ANN)


def test_a_priority_is_put_back(probes: Any) -> None:
    (execution,) = probes(1)
    executions.set_priority([execution], HIGH, ANN)
    undone = undo(last(), BOB)
    assert Execution.objects.get().priority == NORMAL
    assert undone.target == "probe/p0"


def test_a_priority_moved_on_since_is_left_alone(probes: Any) -> None:
    (execution,) = probes(1)
    executions.set_priority([execution], HIGH, ANN)
    change = last()
    executions.set_priority(Execution.objects.all(), NORMAL, BOB)
    with pytest.raises(CannotUndo, match="priority is normal now, and this change left it high"):
        undo(change, ANN)


def test_what_ends_or_starts_work_is_not_undone_and_the_message_says_what_is(probes: Any) -> None:
    executions.skip(probes(1), ANN)
    with pytest.raises(CannotUndo, match=r"'skip' is not undone; edit limit, .* are"):
        undo(last(), ANN)


@pytest.mark.django_db(transaction=True)
@pytest.mark.only_on("postgres", why="needs two connections")
def test_two_who_undo_the_same_change_at_once_undo_it_once(in_threads: Any) -> None:
    controls.edit_limit("phase:prep", ANN, max_running=5)
    change = last()

    def attempt(number: int) -> bool:
        try:
            undo(change, Actor(f"person {number}", "admin"))
        except CannotUndo:
            return False
        return True

    assert sum(in_threads(4, attempt)) == 1
    assert AuditEntry.objects.filter(undoes=change).count() == 1
    assert limit("phase:prep").max_running == 0


CHANGES: dict[str, Callable[[], object]] = {
    "a limit edited": lambda: controls.edit_limit("phase:prep", ANN, max_running=5),
    "a limit made": lambda: controls.edit_limit("host:a", ANN, rate="1/3s"),
    "a limit removed": lambda: controls.remove_limit("host:there", ANN),
    "a key paused": lambda: controls.pause("host:b", ANN),
    "a limit paused": lambda: controls.pause("phase:prep", ANN),
    "a queue edited": lambda: controls.edit_queue("prep.low", ANN, max_pending=10),
    "a policy edited": lambda: controls.edit_policy("network", "", ANN, max_attempts=2),
    "a policy made": lambda: controls.edit_policy("network", "prep", ANN, max_attempts=2),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("change", CHANGES)
def test_the_limits_of_flows_are_asked_for_before_an_undo_holds_any_row(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are an application's code, which may take its time."""
    controls.edit_limit("host:there", ANN, rate="1/3s")
    limit_rows.sync()

    def ask(flow: Any, check: Any) -> dict[str, dict[str, Any]]:
        asked_in_transaction.append(connection.in_atomic_block)
        return {}

    asked_in_transaction: list[bool] = []
    monkeypatch.setattr(callbacks, "limits", ask)
    CHANGES[change]()
    undone = undo(last(), BOB)
    undo(undone, ANN)
    assert not any(asked_in_transaction)
    assert asked_in_transaction or "paused" in change or "policy" in change
