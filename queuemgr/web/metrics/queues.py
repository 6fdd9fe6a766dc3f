"""Gauges of queues, leases, workers and periodic jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from queuemgr.base import sql
from queuemgr.base.config import queue_settings
from queuemgr.flows.flow import PRIORITY_NAMES, all_queues, queue_name
from queuemgr.models import FINAL, PeriodicJob, Queue, State
from queuemgr.scheduling.snapshot import live_since
from queuemgr.web.metrics.definitions import Sample

_WAITING = """
    SELECT r.phase, r.priority, SUM(w.waiting), SUM(w.due), MIN(w.head)
      FROM (SELECT route_id, COUNT(*) AS waiting, MIN(run_after) AS head,
                   SUM(CASE WHEN run_after <= %s THEN 1 ELSE 0 END) AS due
              FROM queuemgr_execution WHERE state = 'waiting' GROUP BY route_id) w
      JOIN queuemgr_route r ON r.id = w.route_id
     GROUP BY r.phase, r.priority
"""

_LEASES = """
    SELECT phase, priority, started_at IS NOT NULL AS begun, COUNT(*), MIN(expires_at),
           SUM(CASE WHEN expires_at < %s THEN 1 ELSE 0 END),
           SUM(CASE WHEN expires_at < %s THEN 1 ELSE 0 END)
      FROM queuemgr_lease GROUP BY phase, priority, begun
"""

_ENDED = """
    SELECT state, COUNT(*) FROM queuemgr_execution
     WHERE state IN ('done', 'failed', 'skipped', 'cancelled') GROUP BY state
"""

_WORKERS = """
    SELECT CASE WHEN w.draining_at IS NULL THEN 'alive' ELSE 'draining' END AS state,
           COUNT(*), SUM(w.slots), SUM(w.busy)
      FROM (SELECT draining_at, slots,
                   (SELECT COUNT(*) FROM queuemgr_lease l WHERE l.worker_id = k.id) AS busy
              FROM queuemgr_worker k WHERE seen_at > %s) w
     GROUP BY state
"""


def samples(now: datetime) -> Iterator[Sample]:
    yield from _depths(now)
    yield from _ended()
    yield from _workers(now)
    for job, ran_at in PeriodicJob.objects.values_list("name", "ran_at"):
        yield Sample("sluicegate_periodic_job_last_run_timestamp_seconds", (job,), ran_at.timestamp())


def _depths(now: datetime) -> Iterator[Sample]:
    known = all_queues()
    depth: Counter[tuple[str, str]] = Counter()
    due, oldest = Counter[str](), dict.fromkeys(known, 0.0)
    for phase, priority, waiting, may_start, head in sql.rows(_WAITING, [now]):
        queue = _name(phase, priority)
        depth[queue, State.WAITING] += int(waiting)
        due[queue] += int(may_start)
        waited = (now - sql.as_datetime(head)).total_seconds() if head else 0.0
        oldest[queue] = max(oldest.get(queue, 0.0), waited)
    yield from _leases(now, depth)
    for queue in sorted({*known, *oldest, *(queue for queue, _ in depth)}):
        for state in (State.WAITING, State.LEASED, State.RUNNING):
            yield Sample("sluicegate_queue_executions", (queue, state.value), depth[queue, state])
        yield Sample("sluicegate_queue_due", (queue,), due[queue])
        yield Sample("sluicegate_queue_oldest_wait_seconds", (queue,), oldest.get(queue, 0.0))
    paused = set(Queue.objects.paused(now).values_list("name", flat=True))
    for queue in known:
        yield Sample("sluicegate_queue_paused", (queue,), queue in paused)
    yield Sample("sluicegate_starvation_seconds", (), queue_settings().starvation_seconds)


def _leases(now: datetime, depth: Counter[tuple[str, str]]) -> Iterator[Sample]:
    """Add leases to `depth`; yields the gauges of renewals."""
    config = queue_settings()
    soon = now + timedelta(seconds=min(config.heartbeat_seconds, config.lease_seconds / 3))
    near_end, overdue, renewed = 0, 0, 0.0
    rows = sql.rows(_LEASES, [soon, now])
    for phase, priority, begun, leases, first, ends_soon, ended in rows:
        depth[_name(phase, priority), State.RUNNING if begun else State.LEASED] += int(leases)
        overdue += int(ended)
        if begun:
            near_end += int(ends_soon)
            left = (sql.as_datetime(first) - now).total_seconds()
            renewed = max(renewed, config.lease_seconds - left)
    yield Sample("sluicegate_lease_oldest_renewal_seconds", (), renewed)
    yield Sample("sluicegate_lease_seconds", (), config.lease_seconds)
    yield Sample("sluicegate_leases_expiring_soon", (), near_end)
    yield Sample("sluicegate_leases_overdue", (), overdue)


def _ended() -> Iterator[Sample]:
    counts = dict(sql.rows(_ENDED))
    for state in FINAL:
        yield Sample("sluicegate_executions_ended", (state.value,), counts.get(state.value, 0))


def _workers(now: datetime) -> Iterator[Sample]:
    found = {state: row for state, *row in sql.rows(_WORKERS, [live_since(now)])}
    for state in ("alive", "draining"):
        yield Sample("sluicegate_workers", (state,), found.get(state, [0])[0])
    _, slots, busy = found.get("alive", [0, 0, 0])
    yield Sample("sluicegate_worker_slots", (), int(slots))
    yield Sample("sluicegate_worker_slots_busy", (), int(busy))


def _name(phase: str, priority: int) -> str:
    return queue_name(phase, priority) if priority in PRIORITY_NAMES else f"{phase}.{priority}"
