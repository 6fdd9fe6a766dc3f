"""Celery task events, one set per step, whether a message brought it or its slot just came free.

The lease id is the task id and the step's task is the name, so Flower, exporters and `celery events`
show each attempt as a task. Celery's own events are off: a slot that took one message runs many steps.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from celery import current_app
from celery.app import app_or_default
from celery.events import EventDispatcher

from queuemgr.base.redaction import clean
from queuemgr.flows.outcomes import Failed, Interrupted, Result, Skipped, Snoozed
from queuemgr.lifecycle.lease_locks import HeldLease
from queuemgr.lifecycle.leases import Grant
from queuemgr.lifecycle.publish import broker_errors, task_of
from queuemgr.models import Outcome

logger = logging.getLogger(__name__)

SILENCE_SECONDS = 5.0

_ENDS = {
    Outcome.DONE: "task-succeeded",
    Outcome.SKIPPED: "task-succeeded",
    Outcome.RETRIED: "task-retried",
    Outcome.SNOOZED: "task-retried",
    Outcome.INTERRUPTED: "task-retried",
    Outcome.CANCELLED: "task-revoked",
    Outcome.FAILED: "task-failed",
    Outcome.LOST: "task-failed",
}


class StepEvents:
    """Sends the events of one worker's steps; every method is a no-op unless events are on (`-E`).

    Not thread-safe: one thread owns it. While the broker does not answer, events are dropped.
    """

    def __init__(self, hostname: str, *, enabled: bool) -> None:
        self._connection = current_app.connection_for_write()
        self._dispatcher: EventDispatcher | None = None
        if enabled:
            self._dispatcher = EventDispatcher(
                self._connection, hostname=hostname, app=app_or_default(),
                buffer_group=["task"], buffer_limit=50, buffer_while_offline=False,
            )  # fmt: skip
        self._silent_until = 0.0

    def began(self, grants: Iterable[Grant]) -> None:
        for grant in grants:
            uuid = str(grant.lease_id)
            self._send(
                "task-received",
                uuid=uuid,
                name=task_of(grant),
                args=f"({clean(grant.key)!r},)",
                kwargs=f"{{'flow': {grant.flow!r}, 'phase': {grant.phase!r}}}",
                retries=0,
                eta=None,
                root_id=uuid,
                parent_id=None,
            )
            self._send("task-started", uuid=uuid)

    def ended(self, uuid: str, outcome: str, result: Result | None, runtime: float) -> None:
        kind = _ENDS[Outcome(outcome)]
        self._send(kind, uuid=uuid, runtime=runtime, **_details(kind, outcome, result))

    def flush(self) -> None:
        if self._dispatcher is not None:
            self._attempt(self._dispatcher.flush)

    def close(self) -> None:
        if self._dispatcher is not None:
            self._dispatcher.close()
            self._connection.release()

    def _send(self, kind: str, **fields: Any) -> None:
        if self._dispatcher is not None:
            self._attempt(partial(self._dispatcher.send, kind, **fields))

    def _attempt(self, send: Callable[[], Any]) -> None:
        """Send; if the broker does not answer, drop events for `SILENCE_SECONDS`."""
        if time.monotonic() < self._silent_until:
            return
        try:
            send()
        except broker_errors() as error:
            self._silent_until = time.monotonic() + SILENCE_SECONDS
            logger.warning("events not sent, broker does not answer (%s)", type(error).__name__)


def _details(kind: str, outcome: str, result: Result | None) -> dict[str, Any]:
    if kind == "task-succeeded":
        return {"result": repr(outcome)}
    if kind == "task-revoked":
        return {"terminated": False, "signum": None, "expired": False}
    message = outcome
    if isinstance(result, Failed):
        message = f"{result.kind}: {clean(result.message)}"
    elif isinstance(result, Snoozed | Interrupted | Skipped):
        message = f"{outcome}: {clean(result.reason)}"
    return {"exception": message, "traceback": ""}


def connection_lost(leases: Iterable[HeldLease]) -> None:
    """Send the events of lost leases for their dead workers, so that no monitor shows them running."""
    senders = {lease.worker: StepEvents(lease.worker, enabled=True) for lease in leases}
    for lease in leases:
        senders[lease.worker].ended(str(lease.lease_id), Outcome.LOST, None, 0.0)
    for sender in senders.values():
        sender.flush()
        sender.close()
