"""Does work make progress? The check behind /health/progress: work waits that nothing stops, and for minutes
no live worker could take it, or slots were idle and nothing started. Busy slots, a pause, a spent budget or
an empty queue are no stall.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Max, Min

from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import async_queue, queue_name
from queuemgr.models import Attempt, Execution, Lease, Worker, WorkerDrain
from queuemgr.models.workers import live_span
from queuemgr.reporting.unserved_queues import WorkerRun, unserved
from queuemgr.scheduling.admission import Decision, admit
from queuemgr.scheduling.capacity import Group, queue_of
from queuemgr.scheduling.decision_input import Snapshot
from queuemgr.scheduling.snapshot import read_snapshot

MAX_ROUTES = 200
"""Routes of one queue read for the work that waited longest."""


@dataclass(frozen=True)
class Movement:
    """The runs of workers of steps; their idle slots, by what they take; since when work waits for nothing
    but a worker, by what it may take; when anything last started (None: never)."""

    now: datetime
    runs: tuple[WorkerRun, ...]
    idle_by_group: Mapping[Group, int]
    waiting: Mapping[str, datetime]
    last_start: datetime | None

    @property
    def workers(self) -> int:
        """Workers that take steps now."""
        return sum(run.takes_work and run.slots > 0 for run in self.runs)

    @property
    def idle(self) -> int:
        return sum(self.idle_by_group.values())

    @property
    def waiting_since(self) -> datetime | None:
        """Since when work waits for nothing but a worker; None: none does."""
        return min(self.waiting.values(), default=None)

    def stalled(self, seconds: float) -> str:
        """Why work is stalled, in a sentence; empty when it is not."""
        since = self.now - timedelta(seconds=seconds)
        in_queues = _earliest((queue_of(slot), waits) for slot, waits in self.waiting.items())
        if queues := unserved(in_queues, self.runs, since):
            if not self.workers:
                return f"work waits and no worker has been alive to start any for {seconds:g} seconds"
            return f"work waits in {', '.join(queues)}, and no live worker took it for {seconds:g} seconds"
        overdue = {slot for slot, waits_since in self.waiting.items() if waits_since <= since}
        idle = sum(slots for group, slots in self.idle_by_group.items() if overdue & group)
        if not idle or (self.last_start is not None and self.last_start > since):
            return ""
        return f"work waits, {idle} slots are free, and nothing started for {seconds:g} seconds"


def movement() -> Movement:
    now = database_now()
    snapshot = read_snapshot(now)
    running_since = Lease.objects.aggregate(last=Max("started_at"))["last"]
    ended = Attempt.objects.order_by("-pk").values_list("started_at", flat=True).first()
    return Movement(
        now=now,
        runs=worker_runs(now),
        idle_by_group=snapshot.idle,
        waiting=_earliest([*_waiting(snapshot, admit(snapshot)), *_on_their_way()]),
        last_start=max(filter(None, (running_since, ended)), default=None),
    )


def worker_runs(now: datetime) -> tuple[WorkerRun, ...]:
    """The runs of all workers of steps that are known."""
    span, drains = live_span(now), dict(WorkerDrain.objects.values_list("name", "drained_at"))
    return tuple(
        WorkerRun(
            queues=frozenset(worker.queues),
            slots=worker.slots,
            takes_work=worker.seen_at in span and not worker.draining_at and worker.name not in drains,
            served_until=min(filter(None, (worker.seen_at, worker.draining_at, drains.get(worker.name)))),
        )
        for worker in Worker.objects.filter(slots__gt=0)
    )


def _earliest(waits: Iterable[tuple[str, datetime]]) -> dict[str, datetime]:
    earliest: dict[str, datetime] = {}
    for name, since in waits:
        earliest[name] = min(since, earliest.get(name, since))
    return earliest


def _waiting(snapshot: Snapshot, decision: Decision) -> Iterable[tuple[str, datetime]]:
    """The due time of the oldest work of each queue that waits for nothing but a slot."""
    free = {*decision.starts} | {
        route for route, reasons in decision.reasons.items()
        if all(reason.kind == "workers" for reason in reasons)
    }  # fmt: skip
    routes: dict[str, list[int]] = {}
    for route in snapshot.routes:
        if route.id in free:
            routes.setdefault(route.slot, []).append(route.id)
    for slot, ids in routes.items():
        waiting = Execution.objects.waiting().filter(route_id__in=ids[:MAX_ROUTES])
        if since := waiting.aggregate(since=Min("run_after"))["since"]:
            yield slot, since


def _on_their_way() -> Iterable[tuple[str, datetime]]:
    """Leases no worker has started: their messages may be lost."""
    unstarted = Lease.objects.unstarted().order_by().values_list("phase", "priority", "is_async")
    for phase, rank, is_async, since in unstarted.annotate(since=Min("due_at")):
        queue = queue_name(phase, rank)
        yield async_queue(queue) if is_async else queue, since
