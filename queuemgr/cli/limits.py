from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from rich.table import Table

from queuemgr.base.safe_text import as_json
from queuemgr.cli.output import show, table
from queuemgr.reporting import stats
from queuemgr.scheduling.admission import half_open_text, open_text

NAME = "limits"
HELP = "every limit: usage, rate, budget, and whether its breaker is open or it is paused"
EXAMPLES = """
  queue limits
  queue limits --json | jq -r 'select(.open_until != null) | .limit'
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("--json", action="store_true", help="JSON Lines, stable names")


def run(options: dict[str, Any], out: Any) -> int:
    limits = stats.limits()
    if options["json"]:
        for limit in limits:
            out.write(as_json(limit))
    else:
        show(out, limits_table("", limits))
    return 0


def limits_table(title: str, limits: Iterable[Mapping[str, Any]]) -> Table:
    """Limits as a table, one row each."""
    columns = ["limit", "running", "of", "reserved for high", "rate", "budget today", "state"]
    return table(title, columns, map(_row, limits))


def _row(limit: Mapping[str, Any]) -> list[Any]:
    return [
        limit["limit"], limit["running"], limit["max_running"] or "no cap", limit["reserved_high"],
        limit["rate"], _budget(limit), _state(limit),
    ]  # fmt: skip


def _budget(limit: Mapping[str, Any]) -> str:
    if limit["daily_budget"] is None:
        return ""
    reserved = f" and {limit['reserved']} reserved" if limit["reserved"] else ""
    resets = f", resets {clock(limit['resets_at'])}"
    return f"{limit['spent']}{reserved} of {limit['daily_budget']}{resets}"


def _state(limit: Mapping[str, Any]) -> str:
    parts = [limit["paused"]] if limit["paused"] else []
    if limit["open_until"]:
        parts.append(open_text(clock(limit["open_until"]), limit["open_reason"]))
    if limit["half_open_starts"]:
        parts.append(half_open_text(limit["half_open_starts"], limit["open_reason"]))
    return "; ".join(parts)


def clock(moment: datetime | None) -> str:
    """To the minute; nothing for None."""
    return f"{moment:%Y-%m-%d %H:%M} UTC" if moment else ""
