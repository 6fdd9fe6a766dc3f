"""What `queue enqueue --dry-run` and `queue import --dry-run` say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from queuemgr.base.meters import meter_or_plain
from queuemgr.base.safe_text import as_json
from queuemgr.base.scheduler_lock import database_now
from queuemgr.cli.output import show, table
from queuemgr.cli.subcommands import option
from queuemgr.operations.dry_run import DryRun
from queuemgr.operations.dry_run_forecast import as_data
from queuemgr.reporting.estimate_ranges import about

DRY_RUN = option("--dry-run", action="store_true", help="say what it would do and use, and write nothing")
JSON = option("--json", action="store_true", help="one JSON object, stable names")


def show_dry_run(run: DryRun, json: bool, out: Any) -> None:
    now = database_now()
    found = as_data(run, now)
    if json:
        out.write(as_json(found))
        return
    counts = [f"{found['new']:,} would be new", f"{found['already']:,} already there"]
    counts += [f"{found[name]:,} {name}" for name in ("invalid", "refused") if found[name]]
    out.write(f"nothing is written: {', '.join(counts)}")
    for problem in found["problems"]:
        out.write(problem)
    _show_steps(found, out)
    _show_allowances(found["allowances"], now, out)
    if found["new"]:
        ends = (
            f"done about {about(found['eta'], 'end', now)}"
            if found["eta"]
            else f"no end to expect: {found['because']}"
        )
        out.write(ends)


def _show_steps(found: Mapping[str, Any], out: Any) -> None:
    meters = list(found["scales"])
    rows = [
        [f"{row['phase']}/{row['step']}{' (as lately)' if row['guessed'] else ''}", f"{row['executions']:,}",
         *_amounts(row["used"], meters)]
        for row in found["steps"]
    ]  # fmt: skip
    if rows:
        rows.append(["total", "", *_amounts(found["used"], meters)])
        show(out, table("", ["step", "executions", *meters], rows))


def _amounts(used: Mapping[str, int], meters: Iterable[str]) -> list[str]:
    return [meter_or_plain(meter).text(used[meter]) if meter in used else "" for meter in meters]


def _show_allowances(allowances: Iterable[Mapping[str, Any]], now: datetime, out: Any) -> None:
    rows = []
    for each in allowances:
        text, ahead = meter_or_plain(each["meter"]).text, each["forecast"]
        ends = about(ahead["runs_out_at"], "budget", now) or (
            "not enough is left" if each["exhausts"] else ""
        )
        rows.append(
            [each["limit"], each["allowance"], text(each["adds"]), text(each["left"]), ends,
             about(ahead["done_at"], "end", now) or ahead["because"]]
        )  # fmt: skip
    if rows:
        show(out, table("", ["limit", "allowance", "it adds", "left", "runs out", "all begun"], rows))
