"""Celery's own task events, one set per step, handed over or not.

The lease id is the task id and the step's task is the name, so Flower, exporters and
`celery events` show each attempt as a task of its own. A message's own events are off: one message
carries a slot through many steps.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from celery import current_app
from celery.events import EventDispatcher

from queuemgr.grant import Grant
from queuemgr.models import Outcome
from queuemgr.outcomes import Failed, Interrupted, Result, Skipped, Snoozed
from queuemgr.publish import GIVE_UP, task_of
from queuemgr.redaction import clean

logger = logging.getLogger(__name__)

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

    Not thread-safe on purpose: the one thread that ends leases owns it.
    """

    def __init__(self, hostname: str, *, enabled: bool) -> None:
        self._hostname = hostname
        self._dispatcher = _connect(hostname) if enabled else None

    def began(self, grants: Iterable[Grant]) -> None:
        for grant in grants:
            name, uuid = task_of(grant), str(grant.lease_id)
            self._send(
                "task-received", uuid=uuid, name=name, args=f"({grant.key!r},)",
                kwargs=f"{{'flow': {grant.flow!r}, 'phase': {grant.phase!r}}}", retries=0, eta=None,
                root_id=uuid, parent_id=None,
            )
            self._send("task-started", uuid=uuid)

    def ended(self, uuid: str, outcome: str, result: Result | None, runtime: float) -> None:
        kind = _ENDS[Outcome(outcome)]
        self._send(kind, uuid=uuid, runtime=runtime, **_said(kind, outcome, result))

    def flush(self) -> None:
        if self._dispatcher is not None:
            try:
                self._dispatcher.flush()
            except GIVE_UP as error:
                logger.warning("events not sent, broker does not answer (%s)", type(error).__name__)

    def _send(self, kind: str, **fields: Any) -> None:
        if self._dispatcher is not None:
            self._dispatcher.send(kind, **fields)


def _said(kind: str, outcome: str, result: Result | None) -> dict[str, Any]:
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


def _connect(hostname: str) -> EventDispatcher:
    return EventDispatcher(
        current_app.connection_for_write(),
        hostname=hostname,
        app=current_app._get_current_object(),
        buffer_group=["task"],
        buffer_limit=50,
        buffer_while_offline=True,
    )


@lru_cache(maxsize=64)
def events_of(hostname: str) -> StepEvents:
    """The events sent on behalf of a worker that can no longer send its own."""
    return StepEvents(hostname, enabled=True)
