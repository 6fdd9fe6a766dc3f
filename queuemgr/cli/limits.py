from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table

from queuemgr.base.safe_text import as_json
from queuemgr.cli.output import show, table
from queuemgr.reporting import stats
from queuemgr.scheduling.admission import half_open_text, open_text

NAME = "limits"
HELP = "every limit: what runs, its rate, its budget, whether its breaker is open or it is paused"
EXAMPLES = """
  queue limits
  queue limits --json | jq -r 'select(.open_until != null) | .limit'
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("--json", action="store_true", help="JSON Lines, stable names")


def run(options: dict[str, Any], out: Any) -> int:
    found = stats.all_limits()
    if options["json"]:
        for facts in found:
            out.write(as_json(facts))
    else:
        show(out, limits_table("", found))
    return 0


def limits_table(title: str, found: Iterable[Mapping[str, Any]]) -> Table:
    """Limits as a table, a line each."""
    columns = ["limit", "running", "of", "reserved for high", "rate", "budget today", "state"]
    return table(title, columns, (_row(facts) for facts in found))


def _row(facts: Mapping[str, Any]) -> list[Any]:
    return [
        facts["limit"], facts["running"], facts["max_running"] or "no cap", facts["reserved_high"],
        facts["rate"], _budget(facts), _state(facts),
    ]  # fmt: skip


def _budget(facts: Mapping[str, Any]) -> str:
    if facts["daily_budget"] is None:
        return ""
    held = f" and {facts['reserved']} reserved" if facts["reserved"] else ""
    resets = f", resets {clock(facts['resets_at'])}"
    return f"{facts['spent']}{held} of {facts['daily_budget']}{resets}"


def _state(facts: Mapping[str, Any]) -> str:
    said = [facts["paused"]] if facts["paused"] else []
    if facts["open_until"]:
        said.append(open_text(clock(facts["open_until"]), facts["open_reason"]))
    if facts["half_open_starts"]:
        said.append(half_open_text(facts["half_open_starts"], facts["open_reason"]))
    return "; ".join(said)


def clock(moment: str | None) -> str:
    """An ISO 8601 moment in UTC as people read it."""
    return f"{moment[:16].replace('T', ' ')} UTC" if moment else ""
