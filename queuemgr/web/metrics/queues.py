"""Gauges of queues, leases, workers, periodic jobs and schedules."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Count, Min, Q

from queuemgr.base import sql
from queuemgr.base.config import queue_settings
from queuemgr.flows.flow import all_queues
from queuemgr.models import FINAL, Lease, PeriodicJob, Queue, RunOutcome, ScheduledRun, State
from queuemgr.models.workers import live_span
from queuemgr.reporting import schedules
from queuemgr.reporting.queue_depths import queue_counts
from queuemgr.web.metrics.definitions import Sample

_ENDED = """
    SELECT state, COUNT(*) FROM queuemgr_execution
     WHERE state IN ('done', 'failed', 'skipped', 'cancelled') GROUP BY state
"""

_WORKERS = """
    SELECT CASE WHEN w.draining_at IS NULL THEN 'alive' ELSE 'draining' END AS state,
           COUNT(*), SUM(w.slots), SUM(w.busy), SUM(w.async_slots), SUM(w.async_busy)
      FROM (SELECT slots, async_slots,
                   COALESCE(draining_at, (SELECT drained_at FROM queuemgr_workerdrain d
                                           WHERE d.name = k.name)) AS draining_at,
                   (SELECT COUNT(*) FROM queuemgr_lease l
                     WHERE l.worker_id = k.id AND NOT l.is_async) AS busy,
                   (SELECT COUNT(*) FROM queuemgr_lease l
                     WHERE l.worker_id = k.id AND l.is_async) AS async_busy
              FROM queuemgr_worker k WHERE seen_at > %s AND seen_at < %s) w
     GROUP BY state
"""


class _StateCount(NamedTuple):
    state: str
    executions: int


class _WorkerState(NamedTuple):
    state: str
    workers: int = 0
    slots: int = 0
    busy: int = 0
    async_slots: int = 0
    async_busy: int = 0


def samples(now: datetime) -> Iterator[Sample]:
    for counts in queue_counts(now):
        queue, oldest = counts["queue"], counts["oldest_wait_seconds"] or 0.0
        for state in (State.WAITING, State.LEASED, State.RUNNING):
            yield Sample("sluicegate_queue_executions", (queue, state.value), counts[state])
        yield Sample("sluicegate_queue_due", (queue,), counts["due"])
        yield Sample("sluicegate_queue_oldest_wait_seconds", (queue,), oldest)
    paused = set(Queue.objects.paused(now).values_list("name", flat=True))
    for queue in all_queues():
        yield Sample("sluicegate_queue_paused", (queue,), queue in paused)
    yield Sample("sluicegate_starvation_seconds", (), queue_settings().starvation_seconds)
    yield from _renewals(now)
    ended = {row.state: row.executions for row in sql.rows(_StateCount, _ENDED)}
    for state in FINAL:
        yield Sample("sluicegate_executions_ended", (state.value,), ended.get(state.value, 0))
    yield from _workers(now)
    yield from _schedules(now)
    for job in PeriodicJob.objects.all():
        yield Sample(
            "sluicegate_periodic_job_last_run_timestamp_seconds", (job.name,), job.ran_at.timestamp()
        )
        running = (now - job.running_since).total_seconds() if job.running_since else 0.0
        yield Sample("sluicegate_periodic_job_running_seconds", (job.name,), max(0.0, running))


def _schedules(now: datetime) -> Iterator[Sample]:
    yield Sample("sluicegate_schedule_late_seconds", (), schedules.latest_due(now)[1])
    lately = ScheduledRun.objects.filter(decided_at__gt=now - timedelta(hours=1)).order_by()
    counts = dict(lately.values_list("outcome").annotate(Count("pk")))
    for outcome in RunOutcome.values:
        yield Sample("sluicegate_schedule_runs_last_hour", (outcome,), counts.get(outcome, 0))


def _renewals(now: datetime) -> Iterator[Sample]:
    config, begun = queue_settings(), Q(started_at__isnull=False)
    soon = now + timedelta(seconds=min(config.heartbeat_seconds, config.lease_seconds / 3))
    leases = Lease.objects.aggregate(
        first=Min("expires_at", filter=begun),
        near_end=Count("pk", filter=begun & Q(expires_at__lt=soon)),
        overdue=Count("pk", filter=Q(expires_at__lt=now)),
    )
    left = (leases["first"] - now).total_seconds() if leases["first"] else config.lease_seconds
    renewed = max(0.0, config.lease_seconds - left)
    yield Sample("sluicegate_lease_oldest_renewal_seconds", (), renewed)
    yield Sample("sluicegate_lease_seconds", (), config.lease_seconds)
    yield Sample("sluicegate_leases_expiring_soon", (), leases["near_end"])
    yield Sample("sluicegate_leases_overdue", (), leases["overdue"])


def _workers(now: datetime) -> Iterator[Sample]:
    by_state = {row.state: row for row in sql.rows(_WorkerState, _WORKERS, live_span(now))}
    alive, draining = (by_state.get(state, _WorkerState(state)) for state in ("alive", "draining"))
    for group in (alive, draining):
        yield Sample("sluicegate_workers", (group.state,), group.workers)
    yield Sample("sluicegate_worker_slots", (), int(alive.slots))
    yield Sample("sluicegate_worker_slots_busy", (), int(alive.busy))
    yield Sample("sluicegate_worker_async_slots", (), int(alive.async_slots))
    yield Sample("sluicegate_worker_async_slots_busy", (), int(alive.async_busy))
