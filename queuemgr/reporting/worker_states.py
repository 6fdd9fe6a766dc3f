"""The state of each worker: for the command, the API and the admin's list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from django.db.models import Count, Q

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import Lease, Worker, WorkerDrain
from queuemgr.models.workers import live_span

Condition = Literal["live", "drained", "draining", "gone", "left"]

SHOWN_FOR = timedelta(days=1)


@dataclass(frozen=True)
class WorkerState:
    """One run of a worker. `condition`: `live`, `drained` (by a person: it takes no new work until it is
    resumed), `draining` (it shuts down), `left` (shut down), or `gone` (no heartbeat without having shut
    down). `busy` counts the slots that are, `async_busy` the async slots. `drained` says since when, by whom
    and why; empty: it is not."""

    worker: str
    host: str
    condition: Condition
    slots: int
    busy: int
    async_slots: int
    async_busy: int
    queues: list[str]
    started: datetime
    seen: datetime
    drained: str
    drained_at: datetime | None
    drained_by: str
    drain_reason: str

    @property
    def of_async_slots(self) -> str:
        """`12 of 300`; empty for a worker without any."""
        return f"{self.async_busy} of {self.async_slots}" if self.async_slots else ""


def workers() -> list[WorkerState]:
    """Live workers, and of the others the latest run of each name within the last day, by name."""
    now = database_now()
    runs = Worker.objects.filter(Q(seen_at__gt=now - SHOWN_FOR)).order_by("name", "-seen_at")
    kept: dict[str, list[WorkerState]] = {}
    for state in states(runs, now):
        runs_of_name = kept.setdefault(state.worker, [])
        if not runs_of_name or state.condition not in ("gone", "left"):
            runs_of_name.append(state)
    return [state for of_name in kept.values() for state in of_name]


def drained_consumers(now: datetime) -> dict[str, list[WorkerDrain]]:
    """The drains of the live workers of each queue, by name."""
    drains = {drain.name: drain for drain in WorkerDrain.objects.all()}
    drained = Worker.objects.running(now).filter(name__in=drains).order_by("name")
    found: dict[str, list[WorkerDrain]] = {}
    for name, queues in drained.values_list("name", "queues"):
        for queue in queues:
            if drains[name] not in found.setdefault(queue, []):
                found[queue].append(drains[name])
    return found


def states(runs: Iterable[Worker], now: datetime) -> list[WorkerState]:
    """The states of these, in the same order."""
    found = list(runs)
    held = Lease.objects.filter(worker__in=[run.pk for run in found])
    counts = held.order_by().values_list("worker_id", "is_async").annotate(n=Count("*"))
    busy = {(worker, is_async): count for worker, is_async, count in counts}
    drains = {drain.name: drain for drain in WorkerDrain.objects.filter(name__in={r.name for r in found})}
    return [
        _state(run, busy.get((run.pk, False), 0), busy.get((run.pk, True), 0), drains.get(run.name), now)
        for run in found
    ]


def _state(run: Worker, busy: int, async_busy: int, drain: WorkerDrain | None, now: datetime) -> WorkerState:
    return WorkerState(
        worker=run.name,
        host=run.host,
        condition=condition(run, now, drained=drain is not None),
        slots=run.slots,
        busy=busy,
        async_slots=run.async_slots,
        async_busy=async_busy,
        queues=run.queues,
        started=run.started_at,
        seen=run.seen_at,
        drained=drain.sentence if drain else "",
        drained_at=drain.drained_at if drain else None,
        drained_by=drain.drained_by if drain else "",
        drain_reason=drain.drain_reason if drain else "",
    )


def condition(run: Worker, now: datetime, *, drained: bool) -> Condition:
    if run.seen_at not in live_span(now):
        return "left" if run.draining_at else "gone"
    if run.draining_at:
        return "draining"
    return "drained" if drained else "live"
