"""Queues, their caps, and pausing of a queue, a phase, a limit or everything."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from django.http import Http404, HttpRequest
from ninja import Field, Router, Schema

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import Queue
from queuemgr.operations import controls
from queuemgr.reporting.queue_depths import queue_counts
from queuemgr.web.api.auth import actor_of, caller_of, requires
from queuemgr.web.api.idempotency import idempotent
from queuemgr.web.api.problems import Problem
from queuemgr.web.api.schemas import PRINTABLE, Name, PositiveInteger, QueueCounts, Timestamp, WithReason

router = Router(tags=["queues"])


class QueueOut(QueueCounts):
    """A queue and its executions by state. `due`: those waiting whose `run_after` has passed;
    `max_pending`: how many may wait (0: no cap)."""

    max_pending: int
    paused: str
    paused_until: datetime | None


class Queues(Schema):
    queues: list[QueueOut]


class Cap(WithReason):
    max_pending: PositiveInteger


Target = Annotated[
    str,
    Field(
        min_length=1, max_length=255, pattern=PRINTABLE,
        description="`everything`, a queue (`PHASE.low`), a phase, or a limit (`host:api.example.org:443`).",
    ),
]  # fmt: skip


class PauseInput(WithReason):
    target: Target
    until: Timestamp | None = Field(None, description="End of the pause; null: until resumed.")


class ResumeInput(WithReason):
    target: Target


class PauseOut(Schema):
    target: str
    paused: bool


@router.get("/queues", response=Queues, **requires("read", "view_queue"))
def list_queues(request: HttpRequest) -> Queues:
    """All queues."""
    return Queues(queues=_with_counts(list(Queue.objects.all())))


def _with_counts(queues: list[Queue]) -> list[QueueOut]:
    now = database_now()
    counts = {row["queue"]: row for row in queue_counts(now)}
    return [
        QueueOut(
            **counts[queue.name],
            max_pending=queue.max_pending,
            paused=queue.pause_sentence() if queue.is_paused(now) else "",
            paused_until=queue.paused_until if queue.is_paused(now) else None,
        )
        for queue in queues
        if queue.name in counts
    ]


@router.patch("/queues/{name}", response=QueueOut, **requires("limits", "change_queue"))
@idempotent
def edit_queue(request: HttpRequest, name: Name, given: Cap) -> QueueOut:
    """Set how many executions may wait in a queue; those above a new cap stay."""
    if not Queue.objects.filter(name=name).exists():
        raise Http404(f"no queue is called {name}; GET queues lists them")
    edited = controls.edit_queue(name, actor_of(request, given.reason), max_pending=given.max_pending)
    return _with_counts([edited])[0]


@router.post("/pause", response=PauseOut, **requires("operate", "view_queue"))
@idempotent
def pause(request: HttpRequest, given: PauseInput) -> PauseOut:
    """Pause: nothing starts, running work continues. Needs `pause_queue` or `pause_limit` by target."""
    _may_pause(request, given.target)
    if given.until is not None and given.until <= database_now():
        raise Problem("invalid", "until: this time has passed")
    controls.pause(given.target, actor_of(request, given.reason), given.until)
    return PauseOut(target=given.target, paused=True)


@router.post("/resume", response=PauseOut, **requires("operate", "view_queue"))
@idempotent
def resume(request: HttpRequest, given: ResumeInput) -> PauseOut:
    """End a pause, and close the breaker of a limit."""
    _may_pause(request, given.target)
    controls.resume(given.target, actor_of(request, given.reason))
    return PauseOut(target=given.target, paused=False)


def _may_pause(request: HttpRequest, target: str) -> None:
    is_queue = Queue.objects.filter(name=target).exists()
    caller_of(request).require("operate", "pause_queue" if is_queue else "pause_limit")
