"""Which queues of steps a worker takes messages from: all of its own, or none while it is drained.

It may be fewer: somebody had it consume no more of one, or its channel to the broker lost its consumers. What
it consumes now is what its heartbeat states, and what the fleet believes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from typing import Any

LOOKS = 2
"""Looks at which a queue must not be consumed to count as lost: one may come while the worker connects."""


class QueueConsumption:
    """Stops and starts consuming, in the worker's main loop, which alone may use its connection."""

    def __init__(self, controller: Any, queues: Collection[str]) -> None:
        self._controller, self._queues = controller, queues
        self._stopped = False
        self._missing: deque[frozenset[str]] = deque(maxlen=LOOKS)

    def look(self) -> None:
        """Look at what the main loop consumes; from any thread."""
        self._missing.append(self._missing_now())

    @property
    def lost(self) -> frozenset[str]:
        """The queues that it does not consume though it should, as at the last looks."""
        return frozenset.intersection(*self._missing) if len(self._missing) == LOOKS else frozenset()

    def _missing_now(self) -> frozenset[str]:
        """None while it is drained, or connecting."""
        tasks = getattr(getattr(self._controller, "consumer", None), "task_consumer", None)
        if tasks is None or self._stopped:
            return frozenset()
        return frozenset(self._queues) - frozenset(_consumed(tasks))

    def match(self, takes_work: bool) -> None:
        """Have the main loop consume none of the queues, or again all that it consumed before; from any
        thread. To be called again and again, as a consumer may be connecting. A queue that somebody
        else has it not consume (`celery control cancel_consumer`) is left alone unless it was drained."""
        if takes_work and not self._stopped:
            return
        self._stopped = True
        consumer: Any = getattr(self._controller, "consumer", None)
        if getattr(consumer, "task_consumer", None) is None:  # it is connecting
            return
        if self._differing(consumer, takes_work):
            consumer.call_soon(self._change, consumer, takes_work)
        elif takes_work:
            self._stopped = False

    def _differing(self, consumer: Any, takes_work: bool) -> list[str]:
        tasks = consumer.task_consumer
        if tasks is None:
            return []
        return [queue for queue in self._queues if bool(tasks.consuming_from(queue)) != takes_work]

    def _change(self, consumer: Any, takes_work: bool) -> None:
        if (for_async_slots := getattr(consumer, "async_consumer", None)) is not None:
            for_async_slots.consume(takes_work=takes_work)
        change = consumer.add_task_queue if takes_work else consumer.cancel_task_queue
        for queue in self._differing(consumer, takes_work):
            change(queue)


def _consumed(tasks: Any) -> Iterator[str]:
    """The queues that the consumer has asked for, and that its channel takes messages from; only channels of
    Redis say which these are."""
    channel = tasks.channel
    active = getattr(channel, "_active_queues", None)
    for queue in [] if getattr(channel, "closed", False) else [str(queue.name) for queue in tasks.queues]:
        if tasks.consuming_from(queue) and (active is None or queue in active):
            yield queue
