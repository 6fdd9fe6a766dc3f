from __future__ import annotations

from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.base.redaction import masked
from queuemgr.base.safe_text import as_json
from queuemgr.cli import output
from queuemgr.cli.output import table
from queuemgr.flows.flow import PRIORITY_NAMES
from queuemgr.models import Execution
from queuemgr.reporting import explain

NAME = "show"
HELP = "one execution: its state, why it waits, and every attempt"
EXAMPLES = """
  queue show order-1001
  queue show probe-12 --flow probe --json
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("key", help="the execution's key")
    parser.add_argument("--flow", help="its flow, if several flows have the key")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def find(key: str, flow: str | None) -> Execution:
    """The execution with this key; raises `BadInput` if there is none, or several flows have it."""
    found = Execution.objects.filter(key=key, **({"flow": flow} if flow else {}))[:2]
    if not found:
        raise BadInput(f"no execution has the key {key!r}")
    if len(found) > 1:
        raise BadInput(f"several flows have the key {key!r}: choose one with --flow")
    return found[0]


def run(options: dict[str, Any], out: Any) -> int:
    execution = find(options["key"], options["flow"])
    values = _as_dict(execution)
    attempts = list(execution.attempts.values(*ATTEMPT))
    if options["json"]:
        out.write(as_json({**values, "attempts": attempts}))
        return 0
    rows = ([attempt[name] for name in ATTEMPT] for attempt in attempts)
    output.show(out, table("", ["", ""], values.items()))
    output.show(out, table("\nAttempts", ATTEMPT, rows))
    return 0


ATTEMPT = (
    "phase", "step", "started_at", "ended_at", "outcome", "error_kind", "error_message", "worker",
)  # fmt: skip


def _as_dict(execution: Execution) -> dict[str, Any]:
    return {
        "key": execution.key,
        "flow": execution.flow,
        "status": execution.status,
        "phase": execution.phase,
        "step": execution.step,
        "priority": PRIORITY_NAMES[execution.priority],
        "why": explain.reasons().of(execution),
        "error_kind": execution.error_kind,
        "error": execution.error_message,
        "created": execution.created_at,
        "finished": execution.finished_at,
        "payload": masked(execution.payload),
        "context": masked(execution.context),
    }
