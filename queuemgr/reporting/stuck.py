"""Work that only a person or another day can move: it ends a drained run, and commands that wait say so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import HELD, Batch, Execution, Lease
from queuemgr.reporting import explain


def stuck(phases: Sequence[str] = ()) -> list[explain.Stopped]:
    """What stops all unfinished work, when nothing runs and only a person or the next day can change that.

    Empty while anything runs, may still start, or waits for a due time.
    """
    later = Execution.objects.waiting().filter(run_after__gt=database_now())
    if Lease.objects.exists() or later.exists():
        return []
    route_reasons = explain.reasons()
    stopped = explain.what_stops_work(phases, route_reasons)
    moving = not all(map(_takes_long, stopped))
    return [] if moving or route_reasons.could_start or Lease.objects.exists() else stopped


def stuck_members(batch: Batch) -> list[explain.Stopped]:
    """The same of the unfinished members of a batch."""
    now, waiting = database_now(), batch.executions.waiting()
    if waiting.filter(run_after__gt=now).exists() or batch.executions.filter(state__in=HELD).exists():
        return []
    due = waiting.filter(run_after__lte=now, route__isnull=False)
    routes = Counter(due.order_by().values_list("route_id", flat=True))
    route_reasons = explain.reasons()
    stopped = explain.what_stops_work(route_reasons=route_reasons, counts=routes)
    moving = not all(map(_takes_long, stopped)) or any(not route_reasons.by_route.get(r) for r in routes)
    return [] if moving else stopped


def in_words(stopped: Sequence[explain.Stopped]) -> list[str]:
    """`stopped: 12 wait: everything paused by ann`, one for each reason."""
    return [f"stopped: {each.waiting} wait: {each.text}" for each in stopped]


def _takes_long(stopped: explain.Stopped) -> bool:
    """Can only a person or another day change this? A used-up quota opens the breaker for the day."""
    if stopped.kind == "breaker_open" and stopped.until:
        return stopped.until - database_now() > timedelta(hours=1)
    return stopped.kind in ("budget", "paused", "never", "drained", "batch_window")
