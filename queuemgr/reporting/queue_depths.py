"""How many executions wait and run in each queue, and how long the oldest waits; counted by index."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Count

from queuemgr.base import sql
from queuemgr.flows.flow import PRIORITY_NAMES, all_phases, queue_name
from queuemgr.models import Lease


class _Waiting(NamedTuple):
    """Waiting work of one queue; `head` is when the first falls or fell due."""

    phase: str
    priority: int
    waiting: int = 0
    due: int = 0
    head: datetime | None = None


_WAITING = """
    SELECT phase, priority, SUM(waiting), SUM(due), MIN(head) FROM (
        SELECT r.phase, r.priority,
               (SELECT COUNT(*) FROM queuemgr_execution e
                 WHERE e.route_id = r.id AND e.state = 'waiting') AS waiting,
               (SELECT COUNT(*) FROM queuemgr_execution e
                 WHERE e.route_id = r.id AND e.state = 'waiting' AND e.run_after <= %s) AS due,
               (SELECT MIN(e.run_after) FROM queuemgr_execution e
                 WHERE e.route_id = r.id AND e.state = 'waiting') AS head
          FROM queuemgr_route r) AS counted
     GROUP BY phase, priority
"""
"""The index `execution_heads` has all of it: a grouped count would read every waiting row on SQLite."""


def queue_counts(now: datetime) -> list[dict[str, Any]]:
    """The executions of every queue: waiting, due (of the waiting), leased to no worker yet, and running; the
    oldest wait is None when nothing is due. Empty queues too, phases in order and high priority first."""
    waiting = {(row.phase, row.priority): row for row in sql.rows(_Waiting, _WAITING, [now])}
    by_queue = Lease.objects.order_by().values_list("phase", "priority")
    counts = by_queue.annotate(leases=Count("*"), running=Count("started_at"))
    held = {(phase, rank): (leases, running) for phase, rank, leases, running in counts}
    known = [(phase, rank) for phase in all_phases() for rank in PRIORITY_NAMES]
    busy = [queue for queue, row in waiting.items() if row.waiting]
    queues = dict.fromkeys([*known, *busy, *held])
    return [
        {
            "queue": queue_name(phase, rank),
            "phase": phase,
            "priority": PRIORITY_NAMES[rank],
            "waiting": int(found.waiting),
            "due": int(found.due),
            "leased": leases - running,
            "running": running,
            "oldest_wait_seconds": (now - found.head).total_seconds() if found.head and found.due else None,
        }
        for phase, rank in queues
        for found in (waiting.get((phase, rank), _Waiting(phase, rank)),)
        for leases, running in (held.get((phase, rank), (0, 0)),)
    ]
