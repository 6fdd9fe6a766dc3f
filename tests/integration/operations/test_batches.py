"""Batches: numbered, followed, ended early, handed over in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from queuemgr.base.errors import BadInput, QueueFull, UnknownFlow
from queuemgr.flows.flow import HIGH, NewExecution
from queuemgr.flows.outcomes import Done, Failed, Interrupted
from queuemgr.lifecycle import batch_window
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import Enqueued, enqueue_many
from queuemgr.models import AuditEntry, Execution, Lease, Queue
from queuemgr.operations import batches, controls, executions
from queuemgr.reporting import explain
from tests.integration.operations.batch_fixtures import ANN, BROKEN, held, made, needs_two_connections, states

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _nothing_is_sent(sent: list[Any]) -> None:
    pass


# Opening, adding, closing


def test_members_are_numbered_in_the_order_they_were_given_over_many_adds() -> None:
    batch = made(keys="c a")
    assert batches.add(batch, map(NewExecution, ("b", "d"))).new == 2
    assert list(batch.executions.order_by("batch_seq").values_list("key", "batch_seq")) == [
        ("c", 0), ("a", 1), ("b", 2), ("d", 3),
    ]  # fmt: skip


def test_adding_members_again_changes_nothing_and_members_of_other_batches_stay_there() -> None:
    enqueue_many("probe", [NewExecution("loose")])
    other, batch = made("other", "theirs"), made(keys="a b")
    again = batches.add(batch, map(NewExecution, ("a", "loose", "theirs", "c", "c", "b")))
    assert again == Enqueued(new=1, already=5, new_keys=("c",), outside_batch=2)
    assert list(batch.executions.values_list("key", "batch_seq")) == [("a", 0), ("b", 1), ("c", 2)]
    assert Execution.objects.get(key="theirs").batch == other
    assert Execution.objects.get(key="loose").batch is None


def test_a_closed_batch_takes_nothing_more_and_says_since_when() -> None:
    batch = made(keys="a")
    assert batches.close(batch, ANN)
    assert not batches.close(batch, ANN)
    with pytest.raises(BadInput, match=r"batch b is closed since .*: open another"):
        batches.add(batch, [NewExecution("b")])
    assert list(states(batch)) == ["a"]


@pytest.mark.parametrize("name", ["", " b", "b\n", "x" * 151, "b\x1b[1m"])
def test_a_name_that_cannot_be_one_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="cannot be a batch's name"):
        batches.open_batch(name, "probe", ANN)


def test_a_batch_name_is_unique_and_its_flow_must_exist() -> None:
    made("b")
    with pytest.raises(BadInput, match="called 'b' already"):
        batches.open_batch("b", "probe", ANN)
    with pytest.raises(UnknownFlow):
        batches.open_batch("c", "nonsense", ANN)
    with pytest.raises(BadInput, match="window 10001 is not 0"):
        batches.open_batch("d", "probe", ANN, window=10_001)
    with pytest.raises(BadInput, match=r"no batch is called 'x'; the newest are: b"):
        batches.find("x")


def test_a_full_queue_refuses_members_and_reports_how_many_were_added() -> None:
    from queuemgr.scheduling import limit_rows

    limit_rows.sync()
    Queue.objects.filter(name="prep.normal").update(max_pending=2)
    batch = made(keys="a")
    with pytest.raises(QueueFull) as full:
        batches.add(batch, map(NewExecution, ("a", "b", "c")))
    assert (full.value.new, full.value.already) == (1, 1)
    assert states(batch) == {"a": "waiting", "b": "waiting"}


@needs_two_connections
def test_concurrent_adds_give_each_member_a_number_of_its_own(in_threads: Callable[..., list[Any]]) -> None:
    batch = made(window=3)
    done = in_threads(4, lambda n: batches.add(batch, [NewExecution(f"{n}-{i}") for i in range(20)]))
    assert sum(added.new for added in done) == 80
    places = batch.executions.order_by("batch_seq").values_list("batch_seq", flat=True)
    assert list(places) == list(range(80))
    assert len(held(batch)) == 77


def test_a_batch_of_high_priority_starts_before_another() -> None:
    batch = batches.open_batch("b", "probe", ANN)
    batches.add(batch, [NewExecution("a")], priority=HIGH)
    assert batch.executions.get().priority == HIGH


# The first failure, and cancelling


def test_the_first_failure_cancels_the_rest_in_the_transaction_of_its_own_end(
    played: Callable[..., Any],
) -> None:
    worker = played(slots=3)
    batch = made(keys="a b c d e", fail_fast=True)
    begun = {grant.key: grant for grant in worker.begin_all()}
    assert worker.end(begun["b"], BROKEN) == []
    batch.refresh_from_db()
    assert batch.cancelled_because == "b failed: not_found"
    assert batch.closed_at == batch.cancelled_at
    assert states(batch) == {
        "a": "running", "b": "failed", "c": "running", "d": "cancelled", "e": "cancelled",
    }  # fmt: skip
    reason = explain.reasons().of(batch.executions.get(key="d"))
    assert reason == "cancelled with batch b: b failed: not_found"
    assert set(Lease.objects.values_list("cancel_requested_by", flat=True)) == {"batch b"}
    worker.end(begun["a"], Interrupted("stopped"))
    worker.end(begun["c"], Done())
    assert states(batch)["a"] == "cancelled"
    assert states(batch)["c"] == "done"


def test_a_failure_that_is_tried_again_cancels_nothing(played: Callable[..., Any]) -> None:
    worker = played(slots=1)
    batch = made(keys="a b", fail_fast=True)
    [grant] = worker.begin_all()
    worker.end(grant, Failed("network", "refused"))
    batch.refresh_from_db()
    assert batch.cancelled_at is None


def test_best_effort_runs_everything(played: Callable[..., Any]) -> None:
    worker = played(slots=1)
    batch = made(keys="a b")
    [grant] = worker.begin_all()
    [grant] = worker.end(grant, BROKEN)
    worker.end(grant)
    assert states(batch) == {"a": "failed", "b": "done"}


def test_no_member_of_a_cancelled_batch_starts_while_others_are_still_being_cancelled(
    played: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two rounds of cancellation the fleet keeps dispatching; another batch gets the slots."""
    monkeypatch.setattr(batch_window, "CANCEL_BATCH_SIZE", 2)
    worker = played(slots=3)
    doomed = made("doomed", "a b c d e f g h i j", fail_fast=True)
    made("other", "z")
    grants = worker.begin_all()
    worker.end(grants[0], BROKEN, next_too=True)
    for _ in range(6):
        dispatch()
        assert not Lease.objects.filter(execution__batch=doomed).unstarted().exists()
    assert set(states(doomed).values()) == {"failed", "running", "cancelled"}
    assert Lease.objects.filter(execution__key="z").exists()


def test_cancelling_a_batch_ends_waiting_members_signals_running_ones_and_is_recorded_once(
    played: Callable[..., Any],
) -> None:
    worker = played(slots=1)
    batch = made(keys="a b c", window=1)
    [grant] = worker.begin_all()
    assert batches.cancel(batch, ANN) == 3
    assert batches.cancel(batch, ANN) == 0
    assert states(batch) == {"a": "running", "b": "cancelled", "c": "cancelled"}
    assert Lease.objects.get().cancel_requested_by == "batch b"
    worker.end(grant, Interrupted("stopped"))
    assert states(batch)["a"] == "cancelled"
    change = AuditEntry.objects.get(action="cancel batch")
    assert (change.actor, change.target, change.affected) == ("ann", "batch b", 3)
    with pytest.raises(BadInput, match=r"was cancelled \(by ann: because\)"):
        batches.add(batch, [NewExecution("d")])


def test_a_member_of_a_cancelled_batch_can_be_retried(played: Callable[..., Any]) -> None:
    worker = played(slots=1)
    batch = made(keys="a b", fail_fast=True)
    [grant] = worker.begin_all()
    worker.end(grant, BROKEN)
    assert executions.retry(batch.executions.filter(key="a"), ANN) == 1
    [grant] = worker.begin_all()
    worker.end(grant)
    assert states(batch) == {"a": "done", "b": "cancelled"}


# Progress and results


def test_progress_is_counted_from_the_members(played: Callable[..., Any]) -> None:
    worker = played(slots=2)
    batch = made(keys="a b c d e")
    first, second = worker.begin_all()
    worker.end(first, BROKEN)
    worker.end(second, next_too=False)
    found = batches.progress(batch)
    assert (found.total, found.done, found.failed, found.unfinished) == (5, 1, 1, 3)
    assert found.running + found.waiting == 3
    assert found.eta is not None
    assert str(found).startswith("2 of 5 ended: 1 done, 1 failed; ")


def test_a_batch_whose_last_member_is_blocked_has_no_estimated_end(played: Callable[..., Any]) -> None:
    worker = played(slots=1)
    batch = made(keys="a b c")
    [grant] = worker.begin_all()
    controls.pause("everything", ANN)
    worker.end(grant)
    found = batches.progress(batch)
    assert found.eta is None
    assert found.unknown == "no start to expect: fleet paused by ann: because"


def test_the_estimated_end_follows_the_speed_of_the_batch_itself(played: Callable[..., Any]) -> None:
    worker = played(slots=1)
    batch = made(keys="a b c d")
    [grant] = worker.begin_all()
    worker.end(grant)
    found = batches.progress(batch)
    assert found.eta is not None
    left = (found.eta - explain.database_now()).total_seconds()
    assert 100 < left <= 180  # one a minute, the shortest time a speed is measured over


def test_results_come_in_the_order_given_up_to_the_first_not_ended(played: Callable[..., Any]) -> None:
    worker = played(slots=4)
    batch = made(keys="a b c d")
    grants = {grant.key: grant for grant in worker.begin_all()}
    worker.end(grants["b"])
    assert list(batches.results(batch)) == []
    worker.end(grants["a"], BROKEN)
    worker.end(grants["d"])
    first, second = batches.results(batch)
    assert (first.key, first.state, first.error_kind, first.error) == ("a", "failed", "not_found", "404")
    assert (second.key, second.seq, second.state) == ("b", 1, "done")
    worker.end(grants["c"])
    assert [r.key for r in batches.results(batch, after=second.seq)] == ["c", "d"]
    assert [r.key for r in batches.results(batch, limit=3)] == ["a", "b", "c"]
