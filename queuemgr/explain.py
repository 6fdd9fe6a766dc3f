"""Why something waits: the same pure decision, asked for its reasons instead of its starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count

from queuemgr import snapshot
from queuemgr.admission import Reason, admit
from queuemgr.fleet_lock import database_now
from queuemgr.models import HELD, Execution, State

NEXT_IN_LINE = "next in line: it starts as soon as a worker's slot is free"


@dataclass(frozen=True)
class RouteReasons:
    """Why the work of each waiting route did not start, at one moment."""

    by_route: Mapping[int, tuple[Reason, ...]]
    now: datetime

    def of(self, execution: Execution) -> str:
        """Why this execution is where it is, in a sentence."""
        if execution.state != State.WAITING:
            return _not_waiting(execution)
        if execution.run_after > self.now:
            after = f" ({execution.wait_reason})" if execution.wait_reason else ""
            return f"not before {execution.run_after:%Y-%m-%d %H:%M:%S} UTC{after}"
        reasons = self.by_route.get(execution.route_id or 0, ())
        return "; ".join(reason.text for reason in reasons) or NEXT_IN_LINE


def _not_waiting(execution: Execution) -> str:
    if execution.state in HELD:
        return f"{execution.status}: step {execution.step} has a slot"
    because = execution.error_message or execution.wait_reason
    return f"{execution.state}: {because}" if because else str(execution.state)


def reasons() -> RouteReasons:
    """Ask admission, as things stand now, what stops each waiting route."""
    now = database_now()
    return RouteReasons(admit(snapshot.read(now, explain=True)).reasons, now)


def why(execution: Execution) -> str:
    """Why this execution waits, or what became of it, in a sentence."""
    return reasons().of(execution)


@dataclass(frozen=True)
class Stopped:
    """One limit, its sentence, and how many executions wait on it now."""

    limit: str
    text: str
    waiting: int


def what_stops_work(phases: Sequence[str] = ()) -> list[Stopped]:
    """The limits that stop waiting work (of these phases; none: all), most waited on first."""
    by_route = reasons().by_route
    waiting = Execution.objects.waiting().filter(route_id__in=by_route)
    counts = dict(
        (waiting.filter(phase__in=phases) if phases else waiting)
        .values_list("route_id")
        .annotate(n=Count("pk"))
        .order_by()
    )
    totals: dict[tuple[str, str], int] = {}
    for route, stopped in by_route.items():
        for reason in stopped:
            key = (reason.limit, reason.text)
            totals[key] = totals.get(key, 0) + counts.get(route, 0)
    found = [Stopped(limit, text, n) for (limit, text), n in totals.items() if n]
    return sorted(found, key=lambda s: -s.waiting)
