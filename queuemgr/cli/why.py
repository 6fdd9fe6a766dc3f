from __future__ import annotations

from typing import Any

from queuemgr import explain, position
from queuemgr.cli.output import as_json
from queuemgr.cli.show import find
from queuemgr.explain import RouteReasons
from queuemgr.models import Execution
from queuemgr.position import Estimate

NAME = "why"
HELP = "why an execution waits, its position and likely start; or what became of it"
EXAMPLES = """
  queue why arxiv:2101.00001
  queue why arxiv:2101.00001 --json
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("key", help="the execution's key")
    parser.add_argument("--flow", help="its flow, when several have this key")
    parser.add_argument("--json", action="store_true", help="one JSON object, stable names")


def run(options: dict[str, Any], out: Any) -> int:
    execution = find(options["key"], options["flow"])
    seen = explain.reasons()
    estimate = position.estimate(execution, seen)
    if options["json"]:
        out.write(as_json(_facts(execution, seen, estimate)))
        return 0
    out.write(seen.of(execution))
    if estimate:
        out.write(str(estimate))
    if estimate and estimate.can_change_at:
        out.write(f"can change by itself at {estimate.can_change_at:%Y-%m-%d %H:%M:%S} UTC")
    return 0


def _facts(execution: Execution, seen: RouteReasons, found: Estimate | None) -> dict[str, Any]:
    facts = {
        "key": execution.key,
        "flow": execution.flow,
        "status": execution.status,
        "why": seen.of(execution),
        "reasons": [
            {"limit": r.limit, "reason": r.text, "kind": r.kind, "until": r.until}
            for r in (seen.by_route.get(execution.route_id or 0, ()) if found else ())
        ],
    }
    return {**facts, **_estimated(found)}


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
