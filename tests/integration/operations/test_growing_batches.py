"""Batches that grow while they run: by members that a running one adds, and by batches opened in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from queuemgr.base.errors import BadInput, LeaseLost
from queuemgr.flows.flow import NewExecution
from queuemgr.lifecycle import finish
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import Batch, BatchCallback, Execution, Lease
from queuemgr.operations import batches, executions
from queuemgr.worker import retention
from tests.integration.operations.batch_fixtures import (
    ANN,
    BROKEN,
    EVENTS,
    calling,
    fired,
    is_complete,
    made,
    needs_two_connections,
    states,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sent")]


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
