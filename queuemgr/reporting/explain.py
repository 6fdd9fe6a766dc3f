"""Why work waits: the decision of admission, asked for its reasons instead of its starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from queuemgr.base import sql
from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.time_text import moment_text
from queuemgr.lifecycle import unknown_steps
from queuemgr.lifecycle.batch_window import WindowPositions
from queuemgr.models import HELD, Execution, State, WorkerDrain
from queuemgr.reporting import worker_states
from queuemgr.scheduling.admission import admit
from queuemgr.scheduling.decision_input import Reason, Snapshot
from queuemgr.scheduling.snapshot import read_snapshot


@dataclass(frozen=True)
class RouteReasons:
    """The reasons that stop each waiting route at one moment, and how many executions could start."""

    by_route: Mapping[int, tuple[Reason, ...]]
    now: datetime
    could_start: int = 0
    window_positions: WindowPositions = field(default_factory=WindowPositions, compare=False)

    def of(self, execution: Execution) -> str:
        """Why this execution waits or how it ended, in a sentence."""
        if execution.state != State.WAITING:
            return _not_waiting(execution)
        if execution.run_after is None:
            return self.window_positions.sentence(execution)
        if execution.run_after > self.now and execution.error_kind == unknown_steps.KIND:
            return execution.wait_reason
        if execution.run_after > self.now:
            after = f" ({execution.wait_reason})" if execution.wait_reason else ""
            return f"not before {moment_text(execution.run_after)}{after}"
        reasons = self.by_route.get(execution.route_id or 0, ())
        stopped = "; ".join(reason.text for reason in reasons)
        return stopped or "next in line: it starts as soon as a worker's slot is free"

    def not_before(self, execution: Execution) -> datetime | None:
        """The earliest time it could start as far as known; None when that may be any time."""
        if execution.state != State.WAITING or execution.run_after is None:
            return None
        if execution.run_after > self.now:
            return execution.run_after
        reasons = self.by_route.get(execution.route_id or 0, ())
        return max((reason.until for reason in reasons if reason.until), default=None)


def _not_waiting(execution: Execution) -> str:
    if execution.state in HELD:
        return f"{execution.status}: step {execution.step} has a slot"
    texts = (execution.error_message, execution.wait_reason)
    decided = execution.state in (State.SKIPPED, State.CANCELLED)
    because = next(filter(None, reversed(texts) if decided else texts), "")
    if because.startswith(execution.state):
        return because
    return f"{execution.state}: {because}" if because else str(execution.state)


def reasons(snapshot: Snapshot | None = None) -> RouteReasons:
    """What stops each waiting route now, or in this snapshot, by admission."""
    snapshot = snapshot or read_snapshot(database_now())
    decision = admit(snapshot)
    by_route = _with_drained_workers(decision.reasons, snapshot)
    return RouteReasons(by_route, snapshot.now, len(decision.starts))


Reasons = Mapping[int, tuple[Reason, ...]]


def _with_drained_workers(by_route: Reasons, snapshot: Snapshot) -> Reasons:
    """The same reasons, which name the drained workers of queues that no other live worker consumes."""
    consumed = frozenset[str]().union(*snapshot.idle)
    unserved = [route for route in snapshot.routes if route.queue not in consumed]
    drained = worker_states.drained_consumers(snapshot.now) if unserved else {}
    texts = {
        route.id: f"no live worker takes work from {route.queue}: {_in_words(orders)}"
        for route in unserved
        if (orders := drained.get(route.queue))
    }
    return {
        route: tuple(
            replace(r, text=texts[route], kind="drained") if r.kind == "workers" else r for r in stopped
        )
        if route in texts
        else stopped
        for route, stopped in by_route.items()
    }


def _in_words(drains: Sequence[WorkerDrain]) -> str:
    """Who drained these workers, why, and how to undo it: of the first, and how many others."""
    first, others = drains[0], len(drains) - 1
    more = f"; {others} more drained" if others else ""
    return f"{first.name} {first.sentence}; `queue worker resume {first.name}`{more}"


_WAITING = """
    SELECT r.id, r.phase, (SELECT COUNT(*) FROM queuemgr_execution e
                            WHERE e.route_id = r.id AND e.state = 'waiting')
      FROM queuemgr_route r
"""


class _Waiting(NamedTuple):
    route_id: int
    phase: str
    executions: int


def waiting_by_route(phases: Sequence[str] = ()) -> dict[int, int]:
    """How many executions wait on each route (of these phases; none: all).

    Counted by the index admission uses; SQLite uses it only for a literal condition.
    """
    rows = sql.rows(_Waiting, _WAITING)
    return {row.route_id: row.executions for row in rows if not phases or row.phase in phases}


@dataclass(frozen=True)
class Stopped:
    """One reason, and how many executions wait on it now."""

    limit: str
    text: str
    waiting: int
    kind: str = "capacity"
    until: datetime | None = None


def what_stops_work(
    phases: Sequence[str] = (),
    route_reasons: RouteReasons | None = None,
    counts: Mapping[int, int] | None = None,
) -> list[Stopped]:
    """The reasons that stop waiting work (of these phases; none: all), most waited on first.

    `counts` is the result of `waiting_by_route`, if already read.
    """
    by_route = (route_reasons or reasons()).by_route
    counts = waiting_by_route(phases) if counts is None else counts
    totals: Counter[Reason] = Counter()
    for route, stopped in by_route.items():
        for reason in stopped:
            totals[reason] += counts.get(route, 0)
    stops = [Stopped(r.limit, r.text, n, r.kind, r.until) for r, n in totals.items() if n]
    return sorted(stops, key=lambda s: -s.waiting)
