"""How many executions wait and run in each queue, and how long the oldest waits; counted by index."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count

from queuemgr.base import sql
from queuemgr.flows.flow import PRIORITY_NAMES, all_phases, queue_name
from queuemgr.models import Lease


@dataclass(frozen=True, slots=True)
class Depth:
    """One queue: executions waiting, due (of the waiting), leased to no worker yet, and running; `oldest`
    is since when the oldest due one waits."""

    phase: str
    priority: int
    waiting: int = 0
    due: int = 0
    leased: int = 0
    running: int = 0
    oldest: datetime | None = None

    @property
    def queue(self) -> str:
        return queue_name(self.phase, self.priority)

    def oldest_wait(self, now: datetime) -> float | None:
        """Seconds; None when nothing is due."""
        return max(0.0, (now - self.oldest).total_seconds()) if self.oldest else None


_WAITING = """
    SELECT phase, priority, SUM(waiting), SUM(due), MIN(CASE WHEN head <= %s THEN head END) FROM (
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


def depths(now: datetime) -> list[Depth]:
    """Every queue of every phase, empty ones too, phases in order and high priority first."""
    waiting = {
        (phase, priority): (int(n), int(due), sql.as_datetime(oldest) if oldest else None)
        for phase, priority, n, due, oldest in sql.rows(_WAITING, [now, now])
    }
    held = _held()
    known = [(phase, rank) for phase in all_phases() for rank in PRIORITY_NAMES]
    queues = dict.fromkeys([*known, *(q for q, (n, *_) in waiting.items() if n), *held])
    return [_depth(*queue, waiting.get(queue, (0, 0, None)), held) for queue in queues]


def _held() -> dict[tuple[str, int], Counter[str]]:
    found: dict[tuple[str, int], Counter[str]] = {}
    rows = Lease.objects.values_list("phase", "execution__priority", "execution__state")
    for phase, priority, state, count in rows.annotate(n=Count("*")).order_by():
        found.setdefault((phase, priority), Counter())[state] += count
    return found


def _depth(
    phase: str,
    priority: int,
    waiting: tuple[int, int, datetime | None],
    held: dict[tuple[str, int], Counter[str]],
) -> Depth:
    states = held.get((phase, priority), Counter())
    count, due, oldest = waiting
    return Depth(phase, priority, count, due, states["leased"], states["running"], oldest)
