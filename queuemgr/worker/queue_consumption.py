"""Which queues of steps a worker takes messages from: all of its own, or none while it is drained."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any


class QueueConsumption:
    """Stops and starts consuming, in the worker's main loop, which alone may use its connection."""

    def __init__(self, controller: Any, queues: Collection[str]) -> None:
        self._controller, self._queues = controller, queues
        self._stopped = False

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
        change = consumer.add_task_queue if takes_work else consumer.cancel_task_queue
        for queue in self._differing(consumer, takes_work):
            change(queue)
