from __future__ import annotations

from typing import Any

from queuemgr.base.safe_text import as_json
from queuemgr.cli.show import find
from queuemgr.reporting import explain, queue_position
from queuemgr.reporting.queue_position import serialize

NAME = "why"
HELP = "why an execution waits, its position and estimated start; or how it ended"
EXAMPLES = """
  queue why order-1001
  queue why order-1001 --json
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("key", help="the execution's key")
    parser.add_argument("--flow", help="its flow, if several flows have the key")
    parser.add_argument("--json", action="store_true", help="one JSON object, stable names")


def run(options: dict[str, Any], out: Any) -> int:
    execution = find(options["key"], options["flow"])
    seen = explain.reasons()
    estimate = queue_position.estimate(execution, seen)
    if options["json"]:
        out.write(as_json(serialize(execution, seen, estimate)))
        return 0
    out.write(seen.of(execution))
    if estimate:
        out.write(str(estimate))
    if estimate and estimate.can_change_at:
        out.write(f"next decision at {estimate.can_change_at:%Y-%m-%d %H:%M:%S} UTC")
    return 0
