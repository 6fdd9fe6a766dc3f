"""What a worker consumes now, of real queues and channels of kombu."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kombu import Connection, Consumer, Queue

from queuemgr.worker.queue_consumption import LOOKS, QueueConsumption

QUEUES = ("prep.high", "prep.normal")


@pytest.fixture
def tasks() -> Iterator[Any]:
    """The consumer of a worker."""
    with Connection("memory://") as connection:
        consumer = Consumer(connection, [Queue(name) for name in QUEUES])
        consumer.consume()
        yield consumer


def seen(tasks: Any) -> set[str]:
    consumption = QueueConsumption(SimpleNamespace(consumer=SimpleNamespace(task_consumer=tasks)), QUEUES)
    for _ in range(LOOKS):
        assert consumption.lost == frozenset()
        consumption.look()
    return set(consumption.lost)


def test_a_worker_that_consumes_all_its_queues_has_lost_none(tasks: Any) -> None:
    assert seen(tasks) == set()


def test_a_queue_whose_consumer_was_cancelled_is_lost(tasks: Any) -> None:
    tasks.cancel_by_queue("prep.normal")
    assert seen(tasks) == {"prep.normal"}


def test_queues_are_lost_that_the_channel_takes_no_messages_from(tasks: Any) -> None:
    tasks.channel._active_queues.clear()
    assert seen(tasks) == set(QUEUES)


def test_queues_are_lost_when_the_channel_is_closed(tasks: Any) -> None:
    tasks.channel.close()
    assert seen(tasks) == set(QUEUES)


def test_a_worker_that_connects_has_lost_nothing() -> None:
    assert seen(None) == set()


def test_a_drained_worker_has_lost_nothing(tasks: Any) -> None:
    called: list[Any] = []
    consumer = SimpleNamespace(task_consumer=tasks, call_soon=lambda *call: called.append(call))
    consumption = QueueConsumption(SimpleNamespace(consumer=consumer), QUEUES)
    consumption.match(False)
    tasks.cancel()
    for _ in range(2 * LOOKS):
        consumption.look()
    assert (consumption.lost, bool(called)) == (frozenset(), True)


def test_a_queue_that_is_consumed_again_is_not_lost(tasks: Any) -> None:
    consumption = QueueConsumption(SimpleNamespace(consumer=SimpleNamespace(task_consumer=tasks)), QUEUES)
    tasks.cancel_by_queue("prep.normal")
    for _ in range(LOOKS):
        consumption.look()
    assert consumption.lost == {"prep.normal"}
    tasks.add_queue(Queue("prep.normal"))
    tasks.consume()
    consumption.look()
    assert consumption.lost == frozenset()
