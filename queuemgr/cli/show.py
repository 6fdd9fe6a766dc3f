"""`queue show`, `queue why` and `queue attempts`: where executions stand, and what became of their steps."""

from __future__ import annotations

from typing import Any

from django.db.models import Q
from django.utils import timezone

from queuemgr.base.errors import BadInput
from queuemgr.base.redaction import masked
from queuemgr.base.safe_text import as_json, as_text, safe_text
from queuemgr.cli import output
from queuemgr.cli.arguments import FLOW_OF_KEY, JSON_OBJECT, KEY, ONLY_FLOW
from queuemgr.cli.subcommands import Options, option, subcommand
from queuemgr.flows.flow import PRIORITY_NAMES
from queuemgr.flows.payload_validation import check_key
from queuemgr.models import Attempt, Execution, Outcome
from queuemgr.reporting import explain, queue_position

SHOWN = ("phase", "step", "started_at", "ended_at", "outcome", "error_kind", "error_message", "worker")


def find(key: str, flow: str | None) -> Execution:
    """The execution with this key, which may be written as it is printed, `flow/key`; raises `BadInput` if
    there is none, or several flows have it."""
    check_key(key)
    printed_flow, _, printed_key = key.partition("/")
    written = Q(key=key) | Q(flow=printed_flow, key=printed_key)
    found = Execution.objects.filter(written, **({"flow": flow} if flow else {}))[:2]
    if not found:
        raise BadInput(f"no execution has the key {key!r}")
    if len(found) > 1:
        raise BadInput(f"several flows have the key {key!r}: choose one with --flow")
    return found[0]


@subcommand("show", KEY, FLOW_OF_KEY, option("--json", action="store_true", help="one JSON object"))
def show(options: Options, out: Any) -> None:
    """one execution: its state, why it waits, and every attempt

    queue show order-1001
    queue show probe-12 --flow probe --json
    """
    execution = find(options["key"], options["flow"])
    values = _execution_as_dict(execution)
    attempts = list(execution.attempts.values(*SHOWN, "log"))
    if options["json"]:
        out.write(as_json({**values, "attempts": attempts}))
        return
    output.show(out, output.table("", ["", ""], values.items()))
    rows = ([attempt[name] for name in SHOWN] for attempt in attempts)
    output.show(out, output.table("\nAttempts", SHOWN, rows))
    if log := next((each["log"] for each in reversed(attempts) if each["log"]), ""):
        out.write(f"\nLog of the last failed attempt\n{safe_text(log)}")


def _execution_as_dict(execution: Execution) -> dict[str, Any]:
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
        "unique_key": masked(execution.unique_key) if execution.holds_unique_key(timezone.now()) else None,
        "payload": masked(execution.payload),
        "context": masked(execution.context),
        "result": masked(execution.result),
    }


@subcommand("why", KEY, FLOW_OF_KEY, JSON_OBJECT)
def why(options: Options, out: Any) -> None:
    """why an execution waits, its position and estimated start; or how it ended

    queue why order-1001
    queue why order-1001 --json
    """
    execution = find(options["key"], options["flow"])
    if options["json"]:
        out.write(as_json(queue_position.serialize(execution)))
        return
    route_reasons = explain.reasons()
    estimate = queue_position.estimate(execution, route_reasons)
    out.write(route_reasons.of(execution))
    if estimate:
        out.write(str(estimate))
    if estimate and estimate.can_change_at:
        out.write(f"next decision at {estimate.can_change_at:%Y-%m-%d %H:%M:%S} UTC")


ATTEMPT = {
    "key": "execution__key", "flow": "execution__flow", "phase": "phase", "step": "step",
    "priority": "priority", "limit_key": "limit_keys", "worker": "worker", "leased": "leased_at",
    "started": "started_at", "ended": "ended_at", "outcome": "outcome", "error_kind": "error_kind",
    "error_message": "error_message", "requests": "cost", "lease": "lease_id",
}  # fmt: skip
"""Columns of an attempt by the names they are printed under."""

LINE = (
    "started", "ended", "key", "phase", "step", "outcome", "worker", "lease", "error_kind", "error_message",
)  # fmt: skip


@subcommand(
    "attempts",
    option("--json", action="store_true", help="JSON Lines, stable names, UTC microseconds"),
    ONLY_FLOW,
    option("--key", help="only this execution"),
    option("--outcome", choices=Outcome.values, help="only this outcome"),
)
def attempts(options: Options, out: Any) -> None:
    """every attempt, oldest first

    queue attempts --json | jq -r .outcome | sort | uniq -c
    queue attempts --key order-1001 --outcome failed
    """
    filters = {"execution__flow": "flow", "outcome": "outcome"}
    chosen = {column: options[name] for column, name in filters.items() if options[name]}
    if options["key"]:
        chosen["execution"] = find(options["key"], options["flow"])
    rows = Attempt.objects.filter(**chosen).order_by("pk").values_list(*ATTEMPT.values())
    for row in rows.iterator(chunk_size=2000):
        attempt = dict(zip(ATTEMPT, row, strict=True))
        attempt["priority"] = PRIORITY_NAMES[attempt["priority"]]
        out.write(as_json(attempt) if options["json"] else _line(attempt))


def _line(attempt: dict[str, Any]) -> str:
    """An attempt in one line, of its message the first."""
    columns = (as_text(attempt[name]).partition("\n")[0] for name in LINE)
    return safe_text("  ".join(columns)).rstrip()
