"""How the work stands, as `queue stats --json` prints it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Router, Schema

from queuemgr.reporting import stats
from queuemgr.web.api.auth import needs
from queuemgr.web.api.limits import LimitOut, WaitingOn
from queuemgr.web.api.schemas import ProgressOut

router = Router(tags=["stats"])


class QueueCounts(Schema):
    queue: str
    phase: str
    priority: str
    waiting: int
    due: int
    leased: int
    running: int
    oldest_wait_seconds: float | None


class BudgetOut(Schema):
    """The fleet's budget of the day in its zone, in requests."""

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
    seen: datetime


class FailureCount(Schema):
    error_kind: str
    count: int


class BatchUnderWay(ProgressOut):
    batch: str


class Stats(Schema):
    """Counts by status, queues with work, limits, today's budget, live workers, what work waits on,
    failures by kind, batches under way, and a forecast at the speed of the last hour."""

    at: datetime
    total: int
    statuses: dict[str, int]
    queues: list[QueueCounts]
    limits: list[LimitOut]
    budget: BudgetOut
    workers: list[WorkerOut]
    waiting_on: list[WaitingOn]
    failures: list[FailureCount]
    batches: list[BatchUnderWay]
    forecast: dict[str, Any]


@router.get("/stats", response=Stats, **needs("read", "view_execution"))
def show_stats(request: HttpRequest) -> Stats:
    """How the work stands now."""
    return Stats(**stats.stats())
