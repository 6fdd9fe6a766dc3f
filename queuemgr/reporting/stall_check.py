"""Does work move? The question behind /health/progress: work that nothing forbids waits, slots are
free, and nothing has started for minutes. Busy slots, a pause, a spent budget or an empty queue are no
lack of progress."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Max, Min

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import Attempt, Execution, Lease, Worker
from queuemgr.scheduling import snapshot
from queuemgr.scheduling.admission import Decision, admit

MOST_ROUTES = 200
"""Routes looked at for the work that waited longest; any of them tells as much."""


@dataclass(frozen=True)
class Movement:
    """Live workers and their slots that run nothing; since when work waits that nothing but a worker
    keeps from starting (None: none does); when anything last started (None: never)."""

    now: datetime
    workers: int
    idle: int
    waiting_since: datetime | None
    last_start: datetime | None

    def stalled(self, seconds: float) -> str:
        """Why this is no progress, in a sentence, or empty."""
        since = self.now - timedelta(seconds=seconds)
        if self.waiting_since is None or self.waiting_since > since:
            return ""
        if self.last_start is not None and self.last_start > since:
            return ""
        if not self.workers:
            return f"work waits and no worker has been alive to start any for {seconds:g} seconds"
        if not self.idle:
            return ""
        return (
            f"work waits, {self.idle} slots are free, and nothing started for {seconds:g} seconds"
        )


def movement() -> Movement:
    now = database_now()
    seen = snapshot.read(now)
    live = Worker.objects.filter(seen_at__gt=snapshot.live_since(now), draining_at__isnull=True)
    return Movement(
        now=now,
        workers=live.count(),
        idle=sum(seen.idle.values()),
        waiting_since=_earliest(_waiting_since(admit(seen)), _on_its_way_since()),
        last_start=_last_start(),
    )


def _waiting_since(decision: Decision) -> datetime | None:
    """The due time of the oldest work that only a worker's slot could keep from starting."""
    lacking = (
        route for route, reasons in decision.reasons.items()
        if all(reason.kind == "workers" for reason in reasons)
    )  # fmt: skip
    routes = list(dict.fromkeys([*decision.starts, *lacking]))[:MOST_ROUTES]
    waiting = Execution.objects.waiting().filter(route_id__in=routes)
    since: datetime | None = waiting.aggregate(since=Min("run_after"))["since"]
    return since


def _on_its_way_since() -> datetime | None:
    """The due time of the oldest work that has a lease no worker has begun: its message may be lost."""
    since: datetime | None = Lease.objects.unstarted().aggregate(since=Min("due_at"))["since"]
    return since


def _last_start() -> datetime | None:
    running = Lease.objects.aggregate(last=Max("started_at"))["last"]
    ended = Attempt.objects.order_by("-pk").values_list("started_at", flat=True).first()
    return max((moment for moment in (running, ended) if moment), default=None)


def _earliest(*moments: datetime | None) -> datetime | None:
    known: Iterable[datetime] = (moment for moment in moments if moment)
    return min(known, default=None)
