"""What was cancelled before it started is put back as it was; what has changed since is left alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from queuemgr.base.errors import BadInput, CannotUndo
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import NewExecution
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.models import AuditEntry, Execution, State
from queuemgr.operations import bulk, executions
from queuemgr.operations.bulk.audit import START
from queuemgr.operations.controls import Actor
from queuemgr.operations.undo import check, undo
from tests.integration.conftest import PlayedWorker
from tests.integration.operations.bulk_fixtures import carried_out, started

pytestmark = pytest.mark.django_db
ANN, BOB = Actor("ann", "command", "wrong"), Actor("bob", "command")


@pytest.fixture(autouse=True)
def _rows(sent: list[Any]) -> None: ...


def enqueue(*keys: str) -> None:
    enqueue_many("probe", [NewExecution(key) for key in keys])


def last(action: str = "cancel") -> AuditEntry:
    return AuditEntry.objects.filter(action=action).latest("pk")


def states() -> list[str]:
    return list(Execution.objects.order_by("pk").values_list("state", flat=True))


def test_a_cancelled_execution_waits_again_as_before() -> None:
    enqueue("a")
    one = Execution.objects.get()
    executions.set_run_after([one], database_now() + timedelta(hours=3), ANN)
    before = Execution.objects.filter(pk=one.pk).values("run_after", "route_id", "resumed", "priority").get()
    executions.cancel([one], ANN)
    undone = undo(last(), BOB)
    assert (undone.before, undone.after, undone.actor) == (
        {"state": "cancelled"}, {"state": "waiting"}, "bob",
    )  # fmt: skip
    assert Execution.objects.filter(pk=one.pk).values(*before).get() == before
    with pytest.raises(CannotUndo, match="undone already"):
        undo(last(), BOB)


def test_what_was_retried_or_cancelled_again_since_is_left_alone() -> None:
    enqueue("a")
    one = Execution.objects.get()
    executions.cancel([one], ANN)
    first = last()
    executions.retry([one], BOB)
    with pytest.raises(CannotUndo, match=r"has changed since: state is waiting now"):
        undo(first, BOB)
    executions.cancel([one], BOB)
    Execution.objects.update(finished_at=first.at + timedelta(hours=1))
    with pytest.raises(CannotUndo, match="it was cancelled again"):
        check(first)
    assert states() == ["cancelled"]


def test_what_ran_is_not_put_back(played: Callable[..., PlayedWorker]) -> None:
    worker = played()
    enqueue("a")
    dispatch()
    worker.begin_all()
    executions.cancel(Execution.objects.all(), ANN)
    with pytest.raises(CannotUndo, match="ran when it was cancelled"):
        undo(last(), BOB)


def test_a_bulk_cancellation_is_undone_but_for_what_has_changed_since() -> None:
    enqueue(*(f"k{number}" for number in range(5)))
    carried_out(started("cancel", {"key_prefix": "k"}))
    executions.retry(Execution.objects.filter(key="k1"), BOB)
    executions.retry(Execution.objects.filter(key="k2"), BOB)
    executions.cancel(Execution.objects.filter(key="k2"), BOB)
    undone = undo(last(START), BOB)
    carried_out(bulk.get_or_error(undone.action_id or 0))
    done = bulk.get_or_error(undone.action_id or 0)
    assert not done.problem, done.problem
    assert (done.verb, done.changed, done.skipped) == ("put_back", 3, 2)
    assert states() == ["waiting", "waiting", "cancelled", "waiting", "waiting"]


def test_a_bulk_skip_is_not_undone() -> None:
    enqueue("k")
    action = carried_out(started("skip", {"key_prefix": "k"}))
    with pytest.raises(BadInput, match="start the opposite action"):
        bulk.undo(action.pk, BOB)
    assert states() == [State.SKIPPED]
