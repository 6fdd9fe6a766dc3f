"""Sends a worker process's messages and events to the broker, from a thread of its own.

A broker that hangs blocks this thread and no slot.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue

from queuemgr.flows.outcomes import Result
from queuemgr.lifecycle import log_context, publish
from queuemgr.lifecycle.leases import Grant
from queuemgr.lifecycle.publish import task_of
from queuemgr.lifecycle.task_events import StepEvents
from queuemgr.worker.background_thread import start_vital
from queuemgr.worker.current_worker import CurrentWorker

logger = logging.getLogger("queuemgr.steps")


class BrokerSender:
    """A first-in, first-out queue of messages and events, and the thread that sends them."""

    def __init__(self, worker: CurrentWorker) -> None:
        self._worker = worker.name
        self._events = StepEvents(worker.name, enabled=worker.sends_events)
        self._queue: SimpleQueue[Callable[[], object]] = SimpleQueue()
        start_vital("sluice-broker-sender", self._run)

    def send(self, grants: Sequence[Grant]) -> None:
        """Publish leases as messages."""
        if grants:
            self._queue.put(partial(publish.send, grants))

    def began(self, grants: Sequence[Grant]) -> None:
        """Report that these steps began."""
        if grants:
            self._queue.put(partial(self._events.began, grants))

    def ended(self, grant: Grant, outcome: str, result: Result | None, runtime: float) -> None:
        """Log and report how a step ended; `runtime` in seconds."""
        self._queue.put(partial(self._report_end, grant, outcome, result, runtime))

    def _report_end(self, grant: Grant, outcome: str, result: Result | None, runtime: float) -> None:
        with log_context.about(grant, self._worker):
            logger.info("%s %s: %s in %.3f s", task_of(grant), grant.key, outcome, runtime)
        self._events.ended(str(grant.lease_id), outcome, result, runtime)

    def _run(self) -> None:
        while True:
            send = self._queue.get()
            try:
                send()
                if self._queue.empty():
                    self._events.flush()
            except Exception:  # they are hints: losing one must not end the thread that sends the next
                logger.exception("a message or event could not be sent")
