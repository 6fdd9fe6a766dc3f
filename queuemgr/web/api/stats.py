"""The counts that `queue stats --json` prints."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Router, Schema

from queuemgr.reporting import stats
from queuemgr.web.api.auth import requires
from queuemgr.web.api.limits import LimitOut, WaitingOn
from queuemgr.web.api.schemas import ProgressOut, QueueCounts

router = Router(tags=["stats"])


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
    seen: datetime


class FailureCount(Schema):
    error_kind: str
    count: int


class OpenBatch(ProgressOut):
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


@router.get("/stats", response=Stats, **requires("read", "view_execution"))
def show_stats(request: HttpRequest) -> Stats:
    """Current counts and forecast."""
    return Stats(**stats.stats())
