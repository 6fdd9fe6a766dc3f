"""What `queue batch show`, `list` and `results` print."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from typing import Any

from rich.console import Group
from rich.live import Live

from queuemgr.base.safe_text import as_json
from queuemgr.cli.exit_codes import FINE, SOME_FAILED
from queuemgr.cli.output import console, show, table
from queuemgr.lifecycle import batch_window
from queuemgr.models import Batch
from queuemgr.operations import batches
from queuemgr.reporting.batch_progress import Progress, progress_of
from queuemgr.reporting.batch_results import Result

LISTED = 50
FIRST_FAILURES = 10
LOOK_SECONDS = 1.0
"""Between looks for results whose turn has not come."""


def show_list(options: dict[str, Any], out: Any) -> int:
    newest = list(Batch.objects.all()[:LISTED])
    found = progress_of(newest)
    if options["json"]:
        for batch in newest:
            out.write(as_json(facts_of(batch, found[batch.pk])))
        return FINE
    columns = ["batch", "flow", "", "ended", "of", "failed", "likely done"]
    show(out, table("", columns, (_row(batch, found[batch.pk]) for batch in newest)))
    return FINE


def _row(batch: Batch, found: Progress) -> list[Any]:
    eta = f"{found.eta:%Y-%m-%d %H:%M} UTC" if found.eta else ""
    return [
        batch.name, batch.flow, batches.counts_of(batch), found.ended, found.total, found.failed, eta,
    ]  # fmt: skip


def facts_of(batch: Batch, found: Progress) -> dict[str, Any]:
    """A batch and how far it is, by stable names."""
    return {
        "batch": batch.name,
        "flow": batch.flow,
        "fail_fast": batch.fail_fast,
        "window": batch.window,
        "created": batch.created_at,
        "created_by": batch.created_by,
        "closed": batch.closed_at,
        "cancelled": batch.cancelled_at,
        "cancelled_because": batch.cancelled_because,
        **asdict(found),
    }


def show_one(options: dict[str, Any], out: Any) -> int:
    batch = batches.find(options["name"])
    if options["watch"]:
        return _watch(batch, options, out)
    found = batches.progress(batch)
    if options["json"]:
        out.write(as_json({**facts_of(batch, found), "failures": first_failures(batch)}))
    else:
        show(out, _picture(batch, found))
    return FINE


def first_failures(batch: Batch) -> list[dict[str, str]]:
    """The first members that failed, in the order they were given."""
    failed = batch.executions.failed().order_by("batch_seq")[:FIRST_FAILURES]
    columns = ("key", "error_kind", "error_message")
    return [dict(zip(columns, row, strict=True)) for row in failed.values_list(*columns)]


def _picture(batch: Batch, found: Progress) -> Group:
    rows = [
        ["batch", batch.name],
        ["flow", batch.flow],
        ["rules", batches.rules_of(batch) or "best effort"],
        ["is", batches.counts_of(batch)],
        ["progress", str(found)],
        ["likely done", f"{found.eta:%Y-%m-%d %H:%M} UTC" if found.eta else found.unknown],
    ]
    failed = ([f["key"], f["error_kind"], f["error_message"]] for f in first_failures(batch))
    parts = [table("", ["", ""], rows)]
    if found.failed:
        parts.append(table("\nFirst failures", ["key", "kind", "error"], failed))
    return Group(*parts)


def _watch(batch: Batch, options: dict[str, Any], out: Any) -> int:
    """Look again and again until it has ended: a live picture, or a line whenever something changed."""
    if options["json"] or not out.isatty():
        return _watch_lines(batch, options, out)
    with Live(console=console(out), auto_refresh=False) as live:
        while True:
            found = _look(batch)
            live.update(_picture(batch, found), refresh=True)
            if has_ended(batch, found):
                return code_of(found)
            time.sleep(options["every"])


def _watch_lines(batch: Batch, options: dict[str, Any], out: Any) -> int:
    said = ""
    while True:
        found = _look(batch)
        line = as_json(facts_of(batch, found)) if options["json"] else str(found)
        if str(found) != said:
            said = str(found)
            out.write(line)
            out.flush()
        if has_ended(batch, found):
            return code_of(found)
        time.sleep(options["every"])


def _look(batch: Batch) -> Progress:
    batch.refresh_from_db()
    return batches.progress(batch)


def has_ended(batch: Batch, found: Progress) -> bool:
    return batch.closed_at is not None and not found.unfinished


def code_of(found: Progress) -> int:
    """As `queue run --drain` ends: was all of it done, with nothing failed or cancelled?"""
    return SOME_FAILED if found.failed or found.cancelled else FINE


def show_results(options: dict[str, Any], out: Any) -> int:
    batch, after = batches.find(options["name"]), options["after"]
    found = _followed(batch, -1 if after is None else after, options["follow"])
    for result in islice(found, options["limit"]):
        out.write(as_json(asdict(result)) if options["jsonl"] else _line(result))
    return code_of(progress_of([batch])[batch.pk]) if options["follow"] else FINE


def _followed(batch: Batch, after: int, follow: bool) -> Iterator[Result]:
    """The results as their turn comes; without `follow` those whose turn has come."""
    while True:
        batch.refresh_from_db()
        complete = batch.closed_at is not None and not batch_window.first_unfinished([batch.pk])
        for result in batches.results(batch, after):
            after = result.seq
            yield result
        if complete or not follow:
            return
        time.sleep(LOOK_SECONDS)


def _line(result: Result) -> str:
    because = f"  {result.error_kind}: {result.error}" if result.error_kind else ""
    return f"{result.seq}  {result.key}  {result.state}{because}"
