"""Failed work handed over to a queue of others: one message each, after the commit, by an id that stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import HAND_OVER
from queuemgr.lifecycle import webhook_events
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import AuditEntry, Execution, State
from queuemgr.operations import executions
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows
from queuemgr.testing import clock, run_due
from queuemgr.worker import message_hand_over
from tests.integration.cli.commands import queue

pytestmark = pytest.mark.django_db(transaction=True)

LEGACY = "a.queue.of.others"
Sent = list[tuple[str, dict[str, Any], str, str]]


@pytest.fixture(autouse=True)
def _nothing_is_sent(sent: list[Any]) -> None:
    limit_rows.sync()


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> Sent:
    caught: Sent = []
    monkeypatch.setattr(message_hand_over, "_publish", lambda *message: caught.append(message))
    return caught


def fail(*keys: str) -> None:
    for key in keys:
        enqueue("probe", key, {"seconds": 0, "title": key})
    rows = Execution.objects.filter(flow="probe", key__in=keys)
    rows.update(state=State.FAILED, finished_at=database_now(), route=None, error_kind="rejected")


def hand_over(*more: str) -> str:
    return queue("failed", "hand-over", "--to-queue", LEGACY, *more).out


def test_each_failure_becomes_one_message_and_is_skipped_here(messages: Sent) -> None:
    fail("a", "b")
    said = hand_over("--task", "old.send", "--reason", "they know")
    assert said == "2 handed over, 0 already there, 0 refused\n"
    assert hand_over() == "0 handed over, 0 already there, 0 refused\n"
    assert messages == []
    here = Execution.objects.get(flow="probe", key="a")
    assert here.state == State.SKIPPED
    assert here.wait_reason.endswith(f"handed over to queue {LEGACY}: they know")
    run_due()
    assert [(task, kwargs["title"], to) for task, kwargs, to, _ in messages] == [
        ("old.send", "a", LEGACY), ("old.send", "b", LEGACY),
    ]  # fmt: skip
    done = Execution.objects.filter(flow=HAND_OVER)
    assert {(row.state, row.key) for row in done} == {(State.DONE, message) for *_, message in messages}
    assert AuditEntry.objects.filter(action="enqueue", target=HAND_OVER).count() == 2


def test_the_same_failure_is_handed_over_to_a_queue_once_and_a_new_one_again(messages: Sent) -> None:
    fail("a")
    ended = Execution.objects.get(flow="probe").finished_at
    hand_over()
    Execution.objects.filter(flow="probe").update(state=State.FAILED, finished_at=ended)  # restored
    assert hand_over() == "0 handed over, 1 already there, 0 refused\n"
    executions.retry(Execution.objects.filter(flow="probe"), Actor("ann", "test"))
    fail("a")
    assert hand_over() == "1 handed over, 0 already there, 0 refused\n"
    run_due()
    assert len({message for *_, message in messages}) == 2


def test_nothing_is_sent_of_what_is_rolled_back(messages: Sent) -> None:
    fail("a")
    with pytest.raises(KeyError), transaction.atomic():
        hand_over()
        raise KeyError
    run_due()
    assert messages == []
    assert Execution.objects.get().state == State.FAILED


def test_it_is_sent_by_the_same_id_when_the_broker_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def publish(task: str, kwargs: Any, to: str, message: str) -> None:
        tried.append(message)
        if len(tried) == 1:
            raise OperationalError("no broker")

    monkeypatch.setattr(message_hand_over, "_publish", publish)
    fail("a")
    hand_over()
    run_due()
    assert Execution.objects.get(flow=HAND_OVER).state == State.WAITING
    with clock() as moved:
        moved.advance(hours=1)
        run_due()
    assert Execution.objects.get(flow=HAND_OVER).state == State.DONE
    assert len(set(tried)) == 1


def test_a_message_of_celery_is_in_the_queue(consumed: Callable[[], list[Any]]) -> None:
    fail("a")
    hand_over("--task", "old.send")
    run_due()
    (message,) = consumed()
    assert message.headers["task"] == "old.send"
    assert message.headers["id"] == Execution.objects.get(flow=HAND_OVER).key
    assert message.payload[:2] == [[], {"seconds": 0, "title": "a"}]


@pytest.fixture
def consumed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[Any]]]:
    """What is in the queue of others, of a broker in memory."""
    from kombu import Connection

    with Connection("memory://") as link:
        monkeypatch.setattr(
            current_app, "producer_or_acquire", lambda _: current_app.amqp.Producer(link, auto_declare=False)
        )

        def read() -> list[Any]:
            with link.SimpleQueue(LEGACY) as waiting:
                return [waiting.get(block=False) for _ in range(waiting.qsize())]

        yield read


@pytest.mark.parametrize("name", ["prep.normal", "housekeeping", "", "with space", "x" * 201])
def test_a_queue_of_ours_and_what_is_no_name_are_refused(name: str) -> None:
    fail("a")
    assert queue("failed", "hand-over", "--to-queue", name).code == 3
    assert Execution.objects.get().state == State.FAILED


def test_nobody_else_makes_such_messages(messages: Sent) -> None:
    fail("a")
    for flow in (HAND_OVER, webhook_events.FLOW):
        assert queue("failed", "hand-over", "--to", flow).code == 3
    assert queue("failed", "hand-over", "--to", "papers", "--to-queue", "x").code == 3
    enqueue(HAND_OVER, "forged", {"queue": 7})
    run_due(raising=False)
    assert Execution.objects.get(key="forged").error_kind == message_hand_over.MALFORMED
    assert messages == []
