from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from queuemgr.base.safe_text import as_json
from queuemgr.flows.flow import PRIORITY_NAMES
from queuemgr.models import Attempt, Outcome

NAME = "attempts"
HELP = "every attempt, oldest first"
EXAMPLES = """
  queue attempts --json | jq -r .outcome | sort | uniq -c
  queue attempts --key order-1001 --outcome failed
"""

FIELDS = (
    "execution__key", "execution__flow", "phase", "step", "priority", "limit_keys", "worker",
    "leased_at", "started_at", "ended_at", "outcome", "error_kind", "cost", "lease_id",
)  # fmt: skip


def add_arguments(parser: Any) -> None:
    parser.add_argument("--json", action="store_true", help="JSON Lines, stable names, UTC microseconds")
    parser.add_argument("--flow", help="only this flow")
    parser.add_argument("--key", help="only this execution")
    parser.add_argument("--outcome", choices=Outcome.values, help="only this outcome")


def run(options: dict[str, Any], out: Any) -> int:
    for attempt in _matching(options):
        out.write(as_json(attempt) if options["json"] else "  ".join(_columns(attempt)))
    return 0


def _matching(options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    filters = {
        "execution__flow": options["flow"],
        "execution__key": options["key"],
        "outcome": options["outcome"],
    }
    rows = Attempt.objects.filter(**{k: v for k, v in filters.items() if v}).order_by("pk")
    yield from map(_as_dict, rows.values(*FIELDS).iterator(chunk_size=2000))


def _as_dict(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "key": row["execution__key"],
        "flow": row["execution__flow"],
        "phase": row["phase"],
        "step": row["step"],
        "priority": PRIORITY_NAMES[row["priority"]],
        "limit_key": row["limit_keys"],
        "worker": row["worker"],
        "leased": _utc(row["leased_at"]),
        "started": _utc(row["started_at"]),
        "ended": _utc(row["ended_at"]),
        "outcome": row["outcome"],
        "error_kind": row["error_kind"],
        "requests": row["cost"],
        "lease": str(row["lease_id"]),
    }


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def _columns(attempt: dict[str, Any]) -> list[str]:
    names = ("started", "ended", "key", "phase", "step", "outcome", "error_kind")
    return [str(attempt[name]) for name in names]
