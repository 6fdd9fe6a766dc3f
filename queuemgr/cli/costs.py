"""`queue costs`: what was used of each meter, and by whom or what."""

from __future__ import annotations

from typing import Any

from queuemgr.base.config import queue_settings
from queuemgr.base.csv_text import csv_line
from queuemgr.base.meters import meter_or_plain
from queuemgr.base.safe_text import as_json
from queuemgr.base.scheduler_lock import database_now
from queuemgr.cli.arguments import past, positive
from queuemgr.cli.output import show, table, write_csv
from queuemgr.cli.subcommands import Options, option, subcommand
from queuemgr.reporting.costs import DIMENSIONS, MOST_ROWS, Costs, Used, costs


def _add_formats(parser: Any) -> None:
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument("--json", action="store_true", help="one JSON object, stable names")
    formats.add_argument("--csv", action="store_true", help="comma-separated, with a header")


@subcommand(
    "costs",
    option("--by", default="tenant", choices=tuple(DIMENSIONS), help="added up by what (default tenant)"),
    option("--since", type=past, help="what ended since: 2h, yesterday, 2026-11-28 (default 1d, by day 30d)"),
    option("--until", type=past, help="what ended before (default: now)"),
    option("--meter", default="", help="only of this meter, as usd (default: all that were used)"),
    option("--zone", help="where days are, as Europe/Berlin (default SLUICE_BUDGET_ZONE)"),
    option("--rows", type=positive, default=100, help=f"how many rows (default 100, at most {MOST_ROWS:,})"),
    _add_formats,
)  # fmt: skip
def show_costs(options: Options, out: Any) -> None:
    """what ended attempts used of each meter (dollars, tokens, requests), by tenant, day, limit and so on

    queue costs --by tenant --since 2h
    queue costs --by day --since 30d --zone Europe/Berlin
    queue costs --by limit --since 2026-11-01 --until 2026-12-01 --meter usd
    queue costs --by execution --meter tokens --rows 10
    queue costs --by tenant --json | jq -r '.scales.usd as $of | .rows[] | [.tenant, .used.usd / $of] | @tsv'
    queue costs --by step --csv > steps.csv
    what still runs is not in it; a day's are the attempts that ended on it; an attempt counts for each of its
    limits, so that rows by limit may add up to more than the total
    exit codes: 0 shown (also when nothing was used), 3 refused (with the reason)
    """
    now = database_now()
    found = costs(
        options["by"], now, meter=options["meter"], rows=options["rows"],
        since=options["since"],
        until=options["until"],
        zone=options["zone"] or queue_settings().budget_zone,
    )  # fmt: skip
    if options["json"]:
        out.write(as_json(found.as_data()))
    elif options["csv"]:
        write_csv(out, map(csv_line, found.as_cells()))
    else:
        _show(found, out)


def _show(found: Costs, out: Any) -> None:
    out.write(f"{found.since:%Y-%m-%d %H:%M} to {found.until:%Y-%m-%d %H:%M} UTC")
    rows = [_cells(row, found) for row in found.rows]
    show(out, table("", [found.by, "attempts", *found.meters], [*rows, _cells(found.total, found)]))
    for note in found.notes():
        out.write(note)


def _cells(row: Used, found: Costs) -> list[str]:
    amounts = (meter_or_plain(meter).text(row.amounts[meter]) for meter in found.meters)
    return [row.name or "none", f"{row.attempts:,}", *amounts]
