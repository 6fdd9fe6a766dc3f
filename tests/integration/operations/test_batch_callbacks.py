"""What a batch enqueues when it completes: once, whoever ends its last member, and in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from queuemgr.base.errors import BadInput, LeaseLost, NeverFits, QueueFull, UnknownFlow
from queuemgr.flows import flow
from queuemgr.flows.call import Call
from queuemgr.flows.flow import HIGH, NORMAL, NewExecution, get_flow
from queuemgr.flows.outcomes import Done, Skipped
from queuemgr.flows.unique import Unique
from queuemgr.lifecycle import finish
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.lifecycle.finish import Finish
from queuemgr.lifecycle.lease_locks import RowsBusy
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import AuditEntry, Batch, BatchCallback, Execution, Lease, Queue, Wakeup
from queuemgr.operations import batches, controls, executions
from queuemgr.scheduling import limit_rows
from queuemgr.worker import housekeeping, retention
from tests.integration.operations.batch_fixtures import ANN, BROKEN, made, needs_two_connections, states

pytestmark = pytest.mark.django_db(transaction=True)

EVENTS = ("on_complete", "on_success", "on_failure")


@pytest.fixture(autouse=True)
def _nothing_is_sent(sent: list[Any]) -> None:
    pass


def calling(name: str = "b", keys: str = "", close: bool = True, **rules: Any) -> Batch:
    """A batch of probes that calls a probe at each event, its key the name of the event."""
    calls = {event: Call("probe", {"event": event}, f"{name}:{event}") for event in EVENTS}
    batch = made(name, keys, callbacks=calls, **rules)
    if close:
        batches.close(batch, ANN)
    return batch


def fired(name: str = "b") -> set[str]:
    """The events whose execution is there."""
    keys = Execution.objects.filter(batch=None, key__startswith=f"{name}:").values_list("key", flat=True)
    return {key.removeprefix(f"{name}:") for key in keys}


def is_complete(batch: Batch) -> bool | None:
    """Whether it has succeeded, if it has completed."""
    batch.refresh_from_db()
    return batch.succeeded


# When it completes


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


# Once, whatever is retried


def test_what_a_person_retries_fires_no_callback_again_and_may_fire_the_one_for_success(
    played: Callable[..., Any],
) -> None:
    worker = played(slots=9)
    batch = calling(keys="a b")
    first, second = worker.begin_all()
    worker.end(first, BROKEN)
    worker.end(second)
    assert fired() == {"on_complete", "on_failure"}
    times = dict(BatchCallback.objects.values_list("event", "fired_at"))
    for callback in Execution.objects.filter(batch=None):  # so that one that came again would be seen
        Execution.objects.filter(pk=callback.pk).update(key=f"seen {callback.pk}")
    executions.retry(batch.executions.all(), ANN)
    assert is_complete(batch) is None
    grant = next(g for g in worker.begin_all() if g.key == first.key)
    worker.end(grant)
    assert is_complete(batch) is True
    assert fired() == {"on_success"}
    assert BatchCallback.objects.get(event="on_complete").fired_at == times["on_complete"]


def test_skipping_what_failed_says_to_continue_without_it(played: Callable[..., Any]) -> None:
    worker = played()
    batch = calling(keys="a")
    [grant] = worker.begin_all()
    worker.end(grant, BROKEN)
    assert is_complete(batch) is False
    executions.skip(batch.executions.all(), ANN)
    assert is_complete(batch) is True
    assert fired() == set(EVENTS)


def test_a_callback_is_one_row_for_each_batch_and_event_and_its_key_is_its_own() -> None:
    batch = calling()
    callback = batch.callbacks.first()
    assert callback is not None
    callback.pk = None
    with pytest.raises(IntegrityError), transaction.atomic():
        callback.save()


@needs_two_connections
def test_members_that_end_at_once_fire_each_callback_once(
    played: Callable[..., Any], in_threads: Callable[..., list[Any]]
) -> None:
    """Ends, cancellations and skips of the last members, each in a transaction of its own, at one time."""
    worker = played(slots=24)
    for number in range(6):
        batch = calling(f"r{number}", " ".join(f"{number}.{n}" for n in range(8)))
        dispatch()
        grants = [grant for grant in worker.begin_all() if grant.key.startswith(f"{number}.")]
        left = batch.executions.exclude(pk__in=[grant.execution_id for grant in grants])
        acts: list[Callable[[], Any]] = [
            *(partial(_end, grant) for grant in grants), dispatch,
            *(partial(executions.skip, [member], ANN) for member in left),
        ]  # fmt: skip
        in_threads(len(acts), lambda n, acts=acts: acts[n]())
        dispatch()
        assert is_complete(batch) is True
        assert fired(batch.name) == {"on_complete", "on_success"}
        assert BatchCallback.objects.filter(batch=batch, fired_at__isnull=False).count() == 2
    assert not Wakeup.objects.exists()


def _end(grant: Grant) -> None:
    while True:
        with suppress(RowsBusy):  # as a worker does: it is left out, and ended with the next
            finish.finish_batch([Finish(grant.lease_id, Done())], None)
            return


@needs_two_connections
def test_a_row_that_somebody_holds_delays_only_its_own_batch(in_threads: Callable[..., list[Any]]) -> None:
    batch, other = calling("held", "a"), calling("other", "b")

    def act(number: int) -> None:
        executions.cancel(Execution.objects.filter(batch__isnull=False), ANN)
        assert fired("other") == {"on_complete", "on_failure"}
        assert fired("held") == set()

    with transaction.atomic():
        Batch.objects.select_for_update().get(pk=batch.pk)
        in_threads(1, act)
    dispatch()
    assert fired("held") == {"on_complete", "on_failure"}
    assert is_complete(other) is False


@needs_two_connections
def test_an_open_transaction_that_enqueued_the_key_of_a_callback_delays_only_its_batch(
    in_threads: Callable[..., list[Any]],
) -> None:
    calling("held", "a")
    calling("other", "b")

    def act(number: int) -> None:
        executions.cancel(Execution.objects.filter(batch__isnull=False), ANN)
        assert fired("other") == {"on_complete", "on_failure"}
        assert fired("held") == set()

    with transaction.atomic():
        enqueue_many("probe", [NewExecution("held:on_failure")])
        in_threads(1, act)
    dispatch()
    assert fired("held") == {"on_complete", "on_failure"}
    assert is_complete(Batch.objects.get(name="held")) is False


def test_a_batch_that_an_older_release_left_is_completed_by_the_tick() -> None:
    batch = calling(close=False)
    Batch.objects.update(closed_at=batch.created_at)
    dispatch()
    assert fired() == set()
    housekeeping.tick()
    assert fired() == {"on_complete", "on_success"}


# What may be a callback


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


# Members that a member adds


def test_a_running_member_adds_to_its_closed_batch_which_completes_after_what_it_added(
    played: Callable[..., Any],
) -> None:
    worker = played(slots=1)
    batch = calling(keys="a")
    [grant] = worker.begin_all()
    assert batches.add(batch, [NewExecution("b")], member=grant.lease_id).new == 1
    assert batches.add(batch, [NewExecution("b")], member=grant.lease_id).new == 0
    [grant] = worker.end(grant)
    assert fired() == set()
    worker.end(grant)
    assert fired() == {"on_complete", "on_success"}


def test_who_is_no_running_member_any_more_adds_nothing(played: Callable[..., Any]) -> None:
    worker = played(slots=2)
    batch = calling(keys="a")
    made("other", "z")
    grants = {grant.key: grant for grant in worker.begin_all()}
    with pytest.raises(LeaseLost, match="no running member of batch b"):
        batches.add(batch, [NewExecution("b")], member=grants["z"].lease_id)
    worker.end(grants["a"])
    with pytest.raises(LeaseLost):
        batches.add(batch, [NewExecution("b")], member=grants["a"].lease_id)
    batches.cancel(other := Batch.objects.get(name="other"), ANN)
    with pytest.raises(BadInput, match="was cancelled"):
        batches.add(other, [NewExecution("b")], member=grants["z"].lease_id)
    assert list(states(batch)) == ["a"]


@needs_two_connections
def test_a_member_cannot_end_while_it_adds(
    played: Callable[..., Any], in_threads: Callable[..., list[Any]]
) -> None:
    """Its worker is taken for dead meanwhile; the lease stays until what it adds is committed."""
    worker = played(slots=1)
    batch = calling(keys="a")
    [grant] = worker.begin_all()
    with transaction.atomic():
        batches.add(batch, [NewExecution("b")], member=grant.lease_id)
        in_threads(1, lambda n: finish.lose(Lease.objects.all(), lambda lease: "gone"))
    assert states(batch) == {"a": "running", "b": "waiting"}
    assert fired() == set()


# Batches in batches


def test_a_batch_completes_after_the_batches_in_it(played: Callable[..., Any]) -> None:
    worker = played(slots=9)
    outer = calling("outer", "o", close=False)
    inner = calling("inner", "i", parent=outer)
    batches.close(outer, ANN)
    grants = {grant.key: grant for grant in worker.begin_all()}
    worker.end(grants["o"])
    assert fired("outer") == set()
    worker.end(grants["i"], BROKEN)
    assert (fired("inner"), fired("outer")) == ({"on_complete", "on_failure"},) * 2
    executions.retry(inner.executions.all(), ANN)
    assert (is_complete(inner), is_complete(outer)) == (None, None)
    [grant] = [g for g in worker.begin_all() if g.key == "i"]
    worker.end(grant)
    assert (is_complete(inner), is_complete(outer)) == (True, True)
    assert (fired("inner"), fired("outer")) == (set(EVENTS), set(EVENTS))


def test_a_batch_is_opened_in_an_open_one_or_by_a_running_member(played: Callable[..., Any]) -> None:
    worker = played(slots=1)
    outer = calling("outer", "o")
    [grant] = worker.begin_all()
    with pytest.raises(BadInput, match="batch outer is closed"):
        made("late", parent=outer)
    inner = calling("inner", parent=outer, member=grant.lease_id)
    assert is_complete(inner) is True
    assert is_complete(outer) is None
    worker.end(grant)
    assert is_complete(outer) is True


def test_cancelling_a_batch_cancels_those_in_it(played: Callable[..., Any]) -> None:
    outer = calling("outer", "o", close=False)
    middle = calling("middle", "m", close=False, parent=outer)
    inner = calling("inner", "i", parent=middle)
    batches.cancel(outer, ANN)
    for _ in range(2):
        dispatch()
    assert [states(batch) for batch in (outer, middle, inner)] == [
        {"o": "cancelled"}, {"m": "cancelled"}, {"i": "cancelled"},
    ]  # fmt: skip
    inner.refresh_from_db()
    assert inner.cancelled_because == "with batch middle"
    assert [is_complete(batch) for batch in (outer, middle, inner)] == [False] * 3
    for name in ("outer", "middle", "inner"):
        assert fired(name) == {"on_complete", "on_failure"}


def test_retention_deletes_batches_that_have_completed_the_innermost_first(
    played: Callable[..., Any], configure: Callable[..., None]
) -> None:
    configure(keep_done_days=1)
    worker = played(slots=2)
    outer = calling("outer", "o", close=False)
    calling("inner", "i", parent=outer)
    for grant in worker.begin_all():
        worker.end(grant, next_too=False)
    Execution.objects.exclude(batch=None).update(finished_at="2020-01-01T00:00Z")
    Batch.objects.update(created_at="2020-01-01T00:00Z")
    Batch.objects.filter(name="inner").update(closed_at="2020-01-01T00:00Z")
    assert retention.run().batches == 0
    batches.close(outer, ANN)
    Batch.objects.update(closed_at="2020-01-01T00:00Z")
    assert retention.run().batches == 2
    assert not Batch.objects.exists()
    assert not BatchCallback.objects.exists()


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
