"""Which queues of steps a worker takes messages from: all of its own, or none while it is drained."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any


class QueueConsumption:
    """Stops and starts consuming, in the worker's main loop, which alone may use its connection."""

    def __init__(self, controller: Any, queues: Collection[str]) -> None:
        self._controller, self._queues = controller, queues

    def match(self, takes_work: bool) -> None:
        """Have the main loop consume all of the queues, or none, unless it does; from any thread. To be
        called again and again: a consumer that has just reconnected may have begun with the others."""
        consumer: Any = getattr(self._controller, "consumer", None)
        if self._differing(consumer, takes_work):
            consumer.call_soon(self._change, consumer, takes_work)

    def _differing(self, consumer: Any, takes_work: bool) -> list[str]:
        tasks = getattr(consumer, "task_consumer", None)
        if tasks is None:  # it is connecting
            return []
        return [queue for queue in self._queues if bool(tasks.consuming_from(queue)) != takes_work]

    def _change(self, consumer: Any, takes_work: bool) -> None:
        change = consumer.add_task_queue if takes_work else consumer.cancel_task_queue
        for queue in self._differing(consumer, takes_work):
            change(queue)
