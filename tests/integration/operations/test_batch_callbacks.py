"""What a batch enqueues when it completes: in one transaction with its last member's end, whoever ends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.db import transaction

from queuemgr.base.errors import BadInput, NeverFits, QueueFull, UnknownFlow
from queuemgr.flows import flow
from queuemgr.flows.call import Call
from queuemgr.flows.flow import HIGH, NORMAL, NewExecution, get_flow
from queuemgr.flows.outcomes import Done, Skipped
from queuemgr.flows.unique import Unique
from queuemgr.lifecycle import finish
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.lifecycle.finish import Finish
from queuemgr.models import AuditEntry, Batch, BatchCallback, Execution, Lease, Queue
from queuemgr.operations import batches, controls, executions
from queuemgr.scheduling import limit_rows
from queuemgr.worker import housekeeping
from tests.integration.operations.batch_fixtures import ANN, BROKEN, calling, fired, is_complete, made

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sent")]


def test_the_end_of_the_last_member_enqueues_the_callbacks_in_its_own_transaction(
    played: Callable[..., Any],
) -> None:
    worker = played(slots=2)
    batch = calling(keys="a b")
    first, second = worker.begin_all()
    worker.end(first)
    assert fired() == set()
    with transaction.atomic():
        worker.end(second)
        assert fired() == {"on_complete", "on_success"}
        transaction.set_rollback(True)
    assert fired() == set()
    worker.end(second)
    assert fired() == {"on_complete", "on_success"}
    assert is_complete(batch)
    callback = Execution.objects.get(key="b:on_complete")
    assert (callback.state, callback.payload) == ("running", {"event": "on_complete"})
    assert BatchCallback.objects.get(event="on_failure").fired_at is None


def test_an_end_that_decides_nothing_leaves_the_completion_to_the_next_decision(
    played: Callable[..., Any],
) -> None:
    worker = played()
    calling(keys="a")
    [grant] = worker.begin_all()
    finish.finish_leases([Finish(grant.lease_id, Done())], grant_time())
    assert fired() == set()
    dispatch()
    assert fired() == {"on_complete", "on_success"}


def grant_time() -> Any:
    return Lease.objects.get().leased_at


@pytest.mark.parametrize(
    ("ending", "outcome"),
    [(BROKEN, "on_failure"), (Done(), "on_success"), (Skipped("nothing to do"), "on_success")],
)
def test_it_succeeds_if_all_is_done_or_skipped_and_else_fails(
    ending: Any, outcome: str, played: Callable[..., Any]
) -> None:
    worker = played(slots=2)
    calling(keys="a b")
    first, second = worker.begin_all()
    worker.end(first, ending)
    worker.end(second)
    assert fired() == {"on_complete", outcome}


def test_a_batch_completes_only_once_it_is_closed_and_then_at_once() -> None:
    empty = calling(close=False)
    dispatch()
    assert (fired(), is_complete(empty)) == (set(), None)
    batches.close(empty, ANN)
    assert (fired(), is_complete(empty)) == ({"on_complete", "on_success"}, True)


def test_closing_after_the_last_end_completes_it(played: Callable[..., Any]) -> None:
    worker = played()
    batch = calling(keys="a", close=False)
    [grant] = worker.begin_all()
    worker.end(grant)
    assert fired() == set()
    batches.close(batch, ANN)
    assert fired() == {"on_complete", "on_success"}


def test_whatever_ends_the_last_member_completes_the_batch(played: Callable[..., Any]) -> None:
    """A cancellation, a skip, a lost worker for the third time; of waiting and of running members."""
    worker = played()
    for number, act in enumerate((executions.cancel, executions.skip)):
        batch = calling(f"b{number}", "a")
        act(batch.executions.all(), ANN)
        assert fired(f"b{number}") == {
            "on_complete",
            "on_success" if act is executions.skip else "on_failure",
        }
    calling("poison", "p")
    for _ in range(3):
        Execution.objects.filter(key="p").update(run_after="2020-01-01T00:00Z")
        housekeeping.tick()
        worker.begin_all()
        Lease.objects.filter(execution__key="p").update(expires_at="2020-01-01T00:00Z")
        housekeeping.tick()
    assert fired("poison") == {"on_complete", "on_failure"}


def test_a_cancelled_batch_fails_even_with_nothing_left_to_cancel(played: Callable[..., Any]) -> None:
    worker = played()
    empty, ended = calling("empty", close=False), calling("ended", "a", close=False)
    dispatch()
    [grant] = worker.begin_all()
    worker.end(grant)
    for batch in (empty, ended):
        batches.cancel(batch, ANN)
        assert is_complete(batch) is False
        assert fired(batch.name) == {"on_complete", "on_failure"}


def test_what_has_completed_is_not_cancelled_by_itself_or_with_the_batch_around_it(
    played: Callable[..., Any],
) -> None:
    """Its callback said that it succeeded: none says later that it did not."""
    worker = played(slots=9)
    outer = calling("outer", "o", close=False)
    inner, alone = calling("inner", "i", parent=outer), calling("alone", "a")
    grants = {grant.key: grant for grant in worker.begin_all()}
    for key in ("i", "a"):
        worker.end(grants[key])
    assert batches.cancel(alone, ANN) == 0
    batches.cancel(outer, ANN)
    dispatch()
    for batch in (inner, alone):
        assert (is_complete(batch), batch.cancelled_at) == (True, None)
        assert fired(batch.name) == {"on_complete", "on_success"}


def test_the_first_failure_of_a_fail_fast_batch_completes_it(played: Callable[..., Any]) -> None:
    worker = played(slots=1)
    calling(keys="a b c", fail_fast=True)
    [grant] = worker.begin_all()
    worker.end(grant, BROKEN)
    assert fired() == {"on_complete", "on_failure"}


def test_a_batch_that_an_older_release_left_is_completed_by_the_tick() -> None:
    batch = calling(close=False)
    Batch.objects.update(closed_at=batch.created_at)
    dispatch()
    assert fired() == set()
    housekeeping.tick()
    assert fired() == {"on_complete", "on_success"}


def test_a_callback_that_could_never_be_enqueued_is_refused_with_the_batch() -> None:
    limit_rows.sync()
    made("earlier", callbacks={"on_complete": Call("probe", key="taken")})
    for wrong, said in (
        ({"on_end": Call("probe")}, "'on_end' is not one of on_complete, on_success, on_failure"),
        ({"on_complete": Call("probe", {"x": {1}})}, "payload is not JSON"),
        ({"on_complete": Call("probe", key="k" * 256)}, "256 characters"),
        ({"on_complete": Call("probe", priority=7)}, "priority 7"),
        ({"on_complete": Call("probe", key="taken")}, "is the callback of another batch"),
    ):
        with pytest.raises(BadInput, match=said):
            batches.open_batch("b", "probe", ANN, callbacks=wrong)
    with pytest.raises(UnknownFlow):
        batches.open_batch("b", "probe", ANN, callbacks={"on_complete": Call("nonsense")})
    assert list(Batch.objects.values_list("name", flat=True)) == ["earlier"]


def test_a_callback_has_a_key_of_its_batch_and_enters_a_full_queue(played: Callable[..., Any]) -> None:
    worker = played(slots=1)
    batch = made(keys="a", callbacks={"on_success": Call("probe", {"n": 1}, priority=HIGH)})
    batches.close(batch, ANN)
    dispatch()
    Queue.objects.update(max_pending=1)
    for priority in (NORMAL, HIGH):
        enqueue_many("probe", [NewExecution(f"z{priority}")], priority=priority)
    with pytest.raises(QueueFull):
        enqueue_many("probe", [NewExecution("x")], priority=HIGH)
    [grant] = [g for g in worker.begin_all() if g.key == "a"]
    worker.end(grant)
    callback = Execution.objects.get(key=f"batch:{batch.pk}:on_success")
    assert (callback.priority, callback.payload) == (HIGH, {"n": 1})


def test_opening_a_batch_with_callbacks_is_recorded_with_what_they_will_be() -> None:
    calling()
    after = AuditEntry.objects.get(action="open batch").after
    assert after["on_complete"] == "probe/b:on_complete"


def test_what_never_fits_is_no_callback() -> None:
    limit_rows.sync()
    controls.edit_limit("phase:prep", ANN, daily_budget=4)
    with pytest.raises(NeverFits):
        made(callbacks={"on_complete": Call("probe", {"requests": 5})})
    assert not Batch.objects.exists()


def test_a_callback_of_a_flow_that_is_unique_is_enqueued_whoever_holds_its_unique_key(
    played: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    unique = replace(get_flow("probe"), unique=Unique(keys=["event"], states="all"))
    monkeypatch.setitem(flow._flows, "probe", unique)
    batch = made("b", "", callbacks={"on_complete": Call("probe", {"event": "x"}, "b:on_complete")})
    enqueue_many("probe", [NewExecution("holder", {"event": "x"})])
    batches.close(batch, ANN)
    dispatch()
    assert is_complete(batch)
    rows = Execution.objects.order_by("key").values_list("key", "unique_key")
    assert list(rows) == [("b:on_complete", None), ("holder", 'event="x"')]
