"""Tables of the fleet as a whole, as `queue stats` and `queue watch --once` print them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from queuemgr.base.time_text import duration_text
from queuemgr.cli.output import Table, table
from queuemgr.reporting.estimate_ranges import about


def budget_line(budget: Mapping[str, Any]) -> str:
    total = budget["budget"] if budget["budget"] is not None else "no limit"
    spent, reserved = budget["spent"], budget["reserved"]
    return f"Budget {budget['day']}: {spent} spent and {reserved} reserved of {total} requests"


def workers_table(workers: Iterable[Mapping[str, Any]]) -> Table:
    rows = ([w["worker"], w["busy"], w["slots"], "draining" * w["draining"] or w["drained"]] for w in workers)
    return table("\nWorkers", ["worker", "busy", "slots", ""], rows)


def batches_table(batches: Iterable[Mapping[str, Any]], now: datetime) -> Table:
    rows = (
        [
            b["batch"], b["total"] - b["waiting"] - b["running"], b["total"], b["failed"],
            about(b["eta"], "end", now),
        ]
        for b in batches
    )  # fmt: skip
    return table("\nOpen batches", ["batch", "ended", "of", "failed", "ETA"], rows)


def oldest_wait(queue: Mapping[str, Any]) -> str:
    seconds = queue["oldest_wait_seconds"]
    return "" if seconds is None else duration_text(seconds)
