"""Queues, and pausing: a queue, a phase, a limit or everything."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from django.http import Http404, HttpRequest
from ninja import Field, Router, Schema

from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import PRIORITY_NAMES
from queuemgr.models import Queue
from queuemgr.operations import controls
from queuemgr.reporting import queue_depths
from queuemgr.web.api.auth import by, caller_of, needs
from queuemgr.web.api.idempotency import once
from queuemgr.web.api.problems import Problem
from queuemgr.web.api.schemas import PRINTABLE, Moment, Name, PositiveInteger, Reasoned

router = Router(tags=["queues"])


class QueueOut(Schema):
    """A queue: what waits in it (`due`: as far as time goes, it could start now), what is on its way
    to workers and runs, and how many may wait (0: no cap)."""

    queue: str
    phase: str
    priority: str
    waiting: int
    due: int
    leased: int
    running: int
    oldest_wait_seconds: float | None
    max_pending: int
    paused: str
    paused_until: datetime | None


class Queues(Schema):
    queues: list[QueueOut]


class Cap(Reasoned):
    max_pending: PositiveInteger


Target = Annotated[
    str,
    Field(
        min_length=1, max_length=255, pattern=PRINTABLE,
        description="`everything`, a queue (`prep.low`), a phase, or a limit (`host:arxiv.org:443`).",
    ),
]  # fmt: skip


class ToPause(Reasoned):
    target: Target
    until: Moment | None = Field(None, description="It goes on by itself then; null: never.")


class ToResume(Reasoned):
    target: Target


class PauseOut(Schema):
    target: str
    paused: bool


@router.get("/queues", response=Queues, **needs("read", "view_queue"))
def list_queues(request: HttpRequest) -> Queues:
    """Every queue, and what is in it."""
    return Queues(queues=_shown(list(Queue.objects.all())))


def _shown(queues: list[Queue]) -> list[QueueOut]:
    now = database_now()
    depths = {depth.queue: depth for depth in queue_depths.depths(now)}
    return [
        QueueOut(
            queue=queue.name,
            phase=queue.phase,
            priority=PRIORITY_NAMES[queue.priority],
            waiting=depths[queue.name].waiting,
            due=depths[queue.name].due,
            leased=depths[queue.name].leased,
            running=depths[queue.name].running,
            oldest_wait_seconds=depths[queue.name].oldest_wait(now),
            max_pending=queue.max_pending,
            paused=queue.pause_sentence() if queue.is_paused(now) else "",
            paused_until=queue.paused_until if queue.is_paused(now) else None,
        )
        for queue in queues
        if queue.name in depths
    ]


@router.patch("/queues/{name}", response=QueueOut, **needs("limits", "change_queue"))
@once
def edit_queue(request: HttpRequest, name: Name, given: Cap) -> QueueOut:
    """Set how many may wait in it; what is above the cap already stays."""
    if not Queue.objects.filter(name=name).exists():
        raise Http404(f"no queue is called {name}; GET queues lists them")
    edited = controls.edit_queue(name, by(request, given.reason), max_pending=given.max_pending)
    return _shown([edited])[0]


@router.post("/pause", response=PauseOut, **needs("operate", "view_queue"))
@once
def pause(request: HttpRequest, given: ToPause) -> PauseOut:
    """Stop starts; what runs goes on. Permission `pause_queue` or `pause_limit`, as the target is."""
    _may_pause(request, given.target)
    if given.until is not None and given.until <= database_now():
        raise Problem("invalid", "until: this time has passed")
    controls.pause(given.target, by(request, given.reason), given.until)
    return PauseOut(target=given.target, paused=True)


@router.post("/resume", response=PauseOut, **needs("operate", "view_queue"))
@once
def resume(request: HttpRequest, given: ToResume) -> PauseOut:
    """Undo a pause, and close the breaker of a limit."""
    _may_pause(request, given.target)
    controls.resume(given.target, by(request, given.reason))
    return PauseOut(target=given.target, paused=False)


def _may_pause(request: HttpRequest, target: str) -> None:
    is_queue = Queue.objects.filter(name=target).exists()
    caller_of(request).must("operate", "pause_queue" if is_queue else "pause_limit")
