"""What a worker process tells the broker, messages and events, from a thread of its own.

A broker that hangs stops this thread and no slot.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue

from queuemgr.flows.outcomes import Result
from queuemgr.lifecycle import publish
from queuemgr.lifecycle.leases import Grant
from queuemgr.lifecycle.publish import task_of
from queuemgr.lifecycle.task_events import StepEvents
from queuemgr.worker import log_format
from queuemgr.worker.current_worker import CurrentWorker

logger = logging.getLogger("queuemgr.steps")


class BrokerSender:
    """Everything put in goes out in the order it was put in."""

    def __init__(self, worker: CurrentWorker) -> None:
        self._worker = worker.name
        self._events = StepEvents(worker.name, enabled=worker.sends_events)
        self._letters: SimpleQueue[Callable[[], object]] = SimpleQueue()
        threading.Thread(target=self._carry, name="sluice-outbox", daemon=True).start()

    def send(self, grants: Sequence[Grant]) -> None:
        """Publish leases as messages."""
        if grants:
            self._letters.put(partial(publish.send, grants))

    def began(self, grants: Sequence[Grant]) -> None:
        """Tell that these steps began."""
        if grants:
            self._letters.put(partial(self._events.began, grants))

    def ended(self, grant: Grant, outcome: str, result: Result | None, runtime: float) -> None:
        """Tell how a step ended, `runtime` in seconds."""
        self._letters.put(partial(self._tell_end, grant, outcome, result, runtime))

    def _tell_end(self, grant: Grant, outcome: str, result: Result | None, runtime: float) -> None:
        with log_format.about(grant, self._worker):
            logger.info("%s %s: %s in %.3f s", task_of(grant), grant.key, outcome, runtime)
        self._events.ended(str(grant.lease_id), outcome, result, runtime)

    def _carry(self) -> None:
        while True:
            try:
                self._letters.get()()
                if self._letters.empty():
                    self._events.flush()
            except Exception:
                # A letter that cannot be sent is a hint lost; the thread that sends the next must live.
                logger.exception("a message or event could not be sent")
