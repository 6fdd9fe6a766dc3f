"""Queues, their caps, pausing of a queue, a phase, a limit or everything, and the counts of `queue stats`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Field, Router, Schema

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import Queue
from queuemgr.operations import controls
from queuemgr.reporting import stats
from queuemgr.reporting.queue_depths import queue_counts
from queuemgr.web.api import schemas
from queuemgr.web.api.auth import actor_of, caller_of, requires
from queuemgr.web.api.idempotency import idempotent
from queuemgr.web.api.limits import LimitOut, WaitingOn
from queuemgr.web.api.problems import Problem

router = Router(tags=["queues"])


class QueueCounts(Schema):
    queue: str
    phase: str
    priority: str
    waiting: int
    due: int
    leased: int
    running: int
    oldest_wait_seconds: float | None


class QueueOut(QueueCounts):
    """A queue and its executions by state. `due`: those waiting whose `run_after` has passed;
    `max_pending`: how many may wait (0: no cap)."""

    max_pending: int
    paused: str
    paused_until: datetime | None


class BudgetOut(Schema):
    """The fleet's budget of the current day in its time zone, in requests."""

    day: str
    zone: str
    budget: int | None
    spent: int
    reserved: int
    by_phase: dict[str, int]


class WorkerOut(Schema):
    worker: str
    slots: int
    busy: int
    queues: list[str]
    draining: bool
    drained: str
    seen: datetime


class FailureCount(Schema):
    error_kind: str
    count: int


class OpenBatch(schemas.ProgressOut):
    batch: str


class Stats(Schema):
    """Counts by status, queues with work, limits, today's budget, live workers, what work waits on,
    failures by kind, open batches, and a forecast at the rate of the last hour."""

    at: datetime
    total: int
    statuses: dict[str, int]
    queues: list[QueueCounts]
    limits: list[LimitOut]
    budget: BudgetOut
    workers: list[WorkerOut]
    waiting_on: list[WaitingOn]
    failures: list[FailureCount]
    batches: list[OpenBatch]
    forecast: dict[str, Any]


class Queues(Schema):
    queues: list[QueueOut]


class Cap(schemas.WithReason):
    max_pending: schemas.PositiveInteger


Target = Annotated[
    str,
    Field(
        min_length=1, max_length=255, pattern=schemas.PRINTABLE,
        description="`everything`, a queue (`PHASE.low`), a phase, or a limit (`host:api.example.org:443`).",
    ),
]  # fmt: skip


class ResumeInput(schemas.WithReason):
    target: Target


class PauseInput(ResumeInput):
    until: schemas.Timestamp | None = Field(None, description="End of the pause; null: until resumed.")
    new: bool = Field(False, description="Also a limit that no flow uses yet.")


class PauseOut(Schema):
    target: str
    paused: bool


@router.get("/stats", response=Stats, tags=["stats"], **requires("read", "view_execution"))
def show_stats(request: HttpRequest) -> Any:
    """Current counts and forecast."""
    return stats.stats()


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
def edit_queue(request: HttpRequest, name: schemas.Name, given: Cap) -> QueueOut:
    """Set how many executions may wait in a queue; those above a new cap stay."""
    schemas.get_or_404(Queue, f"no queue is called {name}; GET queues lists them", name=name)
    edited = controls.edit_queue(name, actor_of(request, given.reason), max_pending=given.max_pending)
    return _with_counts([edited])[0]


@router.post("/pause", response=PauseOut, **requires("operate", "view_queue"))
@idempotent
def pause(request: HttpRequest, given: PauseInput) -> PauseOut:
    """Pause: nothing starts, running work continues. Needs `pause_queue` or `pause_limit` by target."""
    _may_pause(request, given.target)
    if given.until is not None and given.until <= database_now():
        raise Problem("invalid", "until: this time has passed")
    controls.pause(given.target, actor_of(request, given.reason), given.until, new=given.new)
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
