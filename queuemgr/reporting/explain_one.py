"""Why an execution waits, its place in line and what may be expected, as plain data."""

from __future__ import annotations

from typing import Any

from queuemgr.models import Execution
from queuemgr.reporting import explain, queue_position
from queuemgr.reporting.queue_position import Estimate


def facts(execution: Execution) -> dict[str, Any]:
    """What `queue why --json` prints and the API answers; names are stable."""
    seen = explain.reasons()
    return facts_of(execution, seen, queue_position.estimate(execution, seen))


def facts_of(
    execution: Execution, seen: explain.RouteReasons, found: Estimate | None
) -> dict[str, Any]:
    stopped = seen.by_route.get(execution.route_id or 0, ()) if found else ()
    return {
        "key": execution.key,
        "flow": execution.flow,
        "status": execution.status,
        "why": seen.of(execution),
        "reasons": [
            {"limit": r.limit, "reason": r.text, "kind": r.kind, "until": r.until} for r in stopped
        ],
        "not_before": seen.not_before(execution),
        **_estimated(found),
    }


def _estimated(found: Estimate | None) -> dict[str, Any]:
    return {
        "queue": found and found.queue,
        "position": found and found.place.position,
        "position_is_at_least": bool(found and found.place.at_least),
        "starts_at": found and found.starts_at,
        "finishes_at": found and found.finishes_at,
        "can_change_at": found and found.can_change_at,
        "started_lately": found and found.started_lately.count,
        "started_lately_seconds": found and round(found.started_lately.seconds),
        "unknown": found.unknown if found else "",
    }
