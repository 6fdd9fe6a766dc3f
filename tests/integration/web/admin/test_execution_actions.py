"""Actions on the rows of the list of executions, one, some, or all that match."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from queuemgr.flows.flow import HIGH, LOW, NORMAL, NewExecution
from queuemgr.lifecycle.enqueue import enqueue, enqueue_many
from queuemgr.models import AuditEntry, Execution, State
from queuemgr.scheduling import limit_rows
from tests.integration.web.admin.admin_pages import a_failed, act, act_on_all, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _queues() -> None:
    limit_rows.sync()


def test_retry_requeues_failed_work_and_is_recorded(operator: Client) -> None:
    failed = a_failed("doc:1")
    assert "1 execution was retried" in text_of(act(operator, "execution", "retry", failed))
    failed.refresh_from_db()
    assert failed.state == State.WAITING
    change = AuditEntry.objects.get()
    assert (change.actor, change.source, change.action) == ("sam", "admin", "retry")
    assert change.target == "probe/doc:1"


def test_cancel_ends_waiting_work_and_leaves_ended_work(operator: Client) -> None:
    failed = a_failed("doc:1")
    enqueue("probe", "doc:2")
    waiting = Execution.objects.get(key="doc:2")
    text = text_of(act(operator, "execution", "cancel", failed, waiting, reason="x"))
    assert "1 execution was cancelled" in text
    assert {*Execution.objects.values_list("key", "state")} == {
        ("doc:1", State.FAILED), ("doc:2", State.CANCELLED),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("action", "after"), [("raise_priority", [HIGH, HIGH, NORMAL]), ("lower_priority", [NORMAL, LOW, LOW])]
)
def test_raising_or_lowering_priority_moves_one_level(
    operator: Client, action: str, after: list[int]
) -> None:
    for priority in (HIGH, NORMAL, LOW):
        enqueue("probe", f"doc:{priority}", priority=priority)
    text = text_of(act_on_all(operator, action))
    assert "2 executions were" in text
    assert [e.priority for e in Execution.objects.order_by("key")] == after
    assert {c.source for c in AuditEntry.objects.all()} == {"admin"}


def test_an_action_on_nothing_that_can_change_says_so(operator: Client) -> None:
    enqueue("probe", "doc:1")
    text = text_of(act(operator, "execution", "retry", Execution.objects.get()))
    assert "0 executions were retried" in text
    assert not AuditEntry.objects.exists()


def test_work_of_a_flow_that_is_gone_is_left_alone_and_stops_no_other(operator: Client) -> None:
    Execution.objects.filter(pk=a_failed("doc:1").pk).update(flow="gone")
    a_failed("doc:2")
    text = text_of(act(operator, "execution", "retry", *Execution.objects.all()))
    assert "1 execution was retried" in text
    assert [change.target for change in AuditEntry.objects.all()] == ["probe/doc:2"]


def test_actions_reach_across_pages_without_long_statements(staff: Callable[..., Client]) -> None:
    operator = staff("view_execution", "cancel_execution")
    enqueue_many("probe", [NewExecution(f"doc:{n}") for n in range(1_200)])
    enqueue("probe", "other:1")
    longest = 0

    def watch(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        nonlocal longest
        longest = max(longest, len(params or ()))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(watch):
        text = text_of(act_on_all(operator, "cancel", "?q=doc", reason="x"))
    assert "1,200 executions were cancelled" in text
    assert [e.key for e in Execution.objects.waiting()] == ["other:1"]
    assert longest < 32_766, "more parameters than SQLite takes in a statement"
