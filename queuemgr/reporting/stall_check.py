"""Does work make progress? The check behind /health/progress: work waits that nothing stops, slots are
idle, and nothing has started for minutes. Busy slots, a pause, a spent budget or an empty queue are no stall.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Max, Min

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import Attempt, Execution, Lease, Worker
from queuemgr.scheduling.admission import Decision, admit
from queuemgr.scheduling.snapshot import read_snapshot

MAX_ROUTES = 200
"""Routes read for the work that waited longest."""


@dataclass(frozen=True)
class Movement:
    """Live workers and their idle slots; since when work waits for nothing but a worker (None: none does);
    when anything last started (None: never)."""

    now: datetime
    workers: int
    idle: int
    waiting_since: datetime | None
    last_start: datetime | None

    def stalled(self, seconds: float) -> str:
        """Why work is stalled, in a sentence; empty when it is not."""
        since = self.now - timedelta(seconds=seconds)
        if self.waiting_since is None or self.waiting_since > since:
            return ""
        if self.last_start is not None and self.last_start > since:
            return ""
        if not self.workers:
            return f"work waits and no worker has been alive to start any for {seconds:g} seconds"
        if not self.idle:
            return ""
        return f"work waits, {self.idle} slots are free, and nothing started for {seconds:g} seconds"


def movement() -> Movement:
    now = database_now()
    snapshot = read_snapshot(now)
    # A lease no worker has started: its message may be lost.
    on_its_way_since = Lease.objects.unstarted().aggregate(since=Min("due_at"))["since"]
    running_since = Lease.objects.aggregate(last=Max("started_at"))["last"]
    ended = Attempt.objects.order_by("-pk").values_list("started_at", flat=True).first()
    return Movement(
        now=now,
        workers=Worker.objects.available(now).count(),
        idle=sum(snapshot.idle.values()),
        waiting_since=min(filter(None, (_waiting_since(admit(snapshot)), on_its_way_since)), default=None),
        last_start=max(filter(None, (running_since, ended)), default=None),
    )


def _waiting_since(decision: Decision) -> datetime | None:
    """The due time of the oldest work that waits for nothing but a slot."""
    lacking = (
        route for route, reasons in decision.reasons.items()
        if all(reason.kind == "workers" for reason in reasons)
    )  # fmt: skip
    routes = list(dict.fromkeys([*decision.starts, *lacking]))[:MAX_ROUTES]
    waiting = Execution.objects.waiting().filter(route_id__in=routes)
    since: datetime | None = waiting.aggregate(since=Min("run_after"))["since"]
    return since
