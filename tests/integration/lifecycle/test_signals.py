"""Django signals of what happened: after the commit, in its order, at no cost to the work."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from queuemgr import signals
from queuemgr.base import signal_delivery, transaction
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import NewExecution
from queuemgr.flows.outcomes import Done, Failed, Lost, Result, Skipped, Snoozed
from queuemgr.lifecycle import finish
from queuemgr.lifecycle.enqueue import enqueue, enqueue_many
from queuemgr.models import Execution, Lease, State
from queuemgr.operations import executions
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import breakers
from tests.integration.conftest import PlayedWorker

pytestmark = pytest.mark.usefixtures("transactional_db", "sent")

NAMES = {name: value for name, value in vars(signals).items() if isinstance(value, signals.Signal)}
Received = list[tuple[str, Any]]


@pytest.fixture
def received() -> Iterator[Received]:
    """What all signals brought, by name."""
    found: Received = []
    receivers = {name: _receiver(name, found) for name in NAMES}
    for name, receive in receivers.items():
        NAMES[name].connect(receive)
    yield found
    for name, receive in receivers.items():
        NAMES[name].disconnect(receive)


def _receiver(name: str, found: Received) -> Callable[..., None]:
    def receive(sender: Any, event: Any, **rest: Any) -> None:
        found.append((name, event))

    return receive


def names(received: Received) -> list[str]:
    assert signal_delivery.flush(10)
    return [name for name, _ in received]


def test_nothing_is_sent_of_what_was_rolled_back(received: Received) -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        enqueue("probe", "a")
        raise RuntimeError
    assert names(received) == []
    with transaction.atomic():
        enqueue("probe", "a")
        assert names(received) == []
    assert names(received) == ["execution_enqueued"]


def test_a_key_that_was_there_is_not_enqueued_again(received: Received) -> None:
    enqueue_many("probe", [NewExecution("a"), NewExecution("b")])
    enqueue_many("probe", [NewExecution("b"), NewExecution("c")])
    assert names(received) == ["execution_enqueued"] * 3
    assert [event.key for _, event in received] == ["a", "b", "c"]


ENDS: list[tuple[Result, list[str]]] = [
    (Skipped("nothing to do"), ["execution_finished"]),
    (Failed("network", "refused"), ["execution_retried"]),
    (Failed("not_found", "no such thing"), ["execution_failed"]),
    (Snoozed(20, "not yet"), []),
    (Lost("its worker died"), ["execution_lost"]),
]


@pytest.mark.parametrize(("result", "expected"), ENDS)
def test_each_end_of_a_step_is_sent_as_what_it_is(
    result: Result, expected: list[str], played: Callable[..., PlayedWorker], received: Received
) -> None:
    worker = played(slots=1)
    enqueue("probe", "a")
    (grant,) = worker.begin_all()
    if isinstance(result, Lost):
        finish.end_abandoned(grant.lease_id, result)
    else:
        worker.end(grant, result, next_too=False)
    assert names(received) == ["execution_enqueued", "execution_started", *expected]
    if expected and isinstance(result, Failed):
        event = received[-1][1]
        assert (event.key, event.error_kind, event.error_message) == ("a", result.kind, result.message)
        assert event.worker == worker.row.name


def test_only_the_end_of_the_last_step_finishes_an_execution(
    played: Callable[..., PlayedWorker], received: Received
) -> None:
    worker = played(slots=1)
    enqueue("probe", "a")
    (grant,) = worker.begin_all()
    while grant:
        (grant, *_) = (*worker.end(grant, Done()), None)
    assert Execution.objects.get().state == State.DONE
    sent = names(received)
    assert sent[0] == "execution_enqueued" and sent[-1] == "execution_finished"
    assert sent.count("execution_finished") == 1
    assert {*sent[1:-1]} == {"execution_started"}


def test_what_a_person_cancels_is_sent(played: Callable[..., PlayedWorker], received: Received) -> None:
    enqueue("probe", "a")
    executions.cancel(Execution.objects.all(), Actor("ann", "test"))
    assert names(received) == ["execution_enqueued", "execution_cancelled"]


def test_a_breaker_that_opens_is_sent_with_its_reason(received: Received) -> None:
    breakers.open_breaker("host:a", database_now(), "3 x 503 in a row")
    assert names(received) == ["breaker_opened"]
    assert (received[0][1].limit, received[0][1].reason) == ("host:a", "3 x 503 in a row")


def _exits(**given: Any) -> None:
    raise SystemExit("a receiver's")


def _raises(**given: Any) -> None:
    raise ValueError("a receiver's")


@pytest.mark.parametrize("receive", [_exits, _raises])
def test_a_receiver_that_raises_is_named_in_the_log_and_others_still_receive(
    receive: Callable[..., None], received: Received, caplog: pytest.LogCaptureFixture
) -> None:
    signals.execution_enqueued.connect(receive)
    try:
        enqueue("probe", "a")
        enqueue("probe", "b")
        assert names(received) == ["execution_enqueued"] * 2
    finally:
        signals.execution_enqueued.disconnect(receive)
    assert "a receiver's" in caplog.text


def test_a_slow_receiver_delays_no_work_and_what_is_too_much_is_dropped_and_counted(
    received: Received, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal_delivery, "MOST_WAITING", 20)
    release, begun = threading.Event(), threading.Event()

    def wait(**given: Any) -> None:
        begun.set()
        release.wait(30)

    signals.execution_enqueued.connect(wait)
    try:
        enqueue("probe", "first")
        assert begun.wait(10)
        began = time.monotonic()
        enqueue_many("probe", [NewExecution(f"p{number}") for number in range(50)])
        assert time.monotonic() - began < 10
        assert Execution.objects.count() == 51
    finally:
        release.set()
        signals.execution_enqueued.disconnect(wait)
    assert len(names(received)) == 21
    assert "more are dropped" in caplog.text
    enqueue("probe", "last")
    assert names(received)[-1] == "execution_enqueued"
    assert "30 events were dropped" in caplog.text


def test_a_forked_child_has_its_own_events_received(received: Received) -> None:
    enqueue("probe", "a")
    assert names(received) == ["execution_enqueued"]
    read, write = os.pipe()
    child = os.fork()
    if not child:
        signal_delivery.send_after_commit(signals.worker_stopped, lambda: [signals.WorkerEvent("child")])
        signal_delivery.flush(10)
        os.write(write, b" ".join(name.encode() for name, _ in received))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 1000) == b"execution_enqueued worker_stopped"
    assert names(received) == ["execution_enqueued"]
    assert not Lease.objects.exists()
