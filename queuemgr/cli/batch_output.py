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
POLL_SECONDS = 1.0
"""Between polls for the results of unfinished members."""


def show_list(options: dict[str, Any], out: Any) -> int:
    newest = list(Batch.objects.all()[:LISTED])
    progress = progress_of(newest)
    if options["json"]:
        for batch in newest:
            out.write(as_json(as_dict(batch, progress[batch.pk])))
        return FINE
    columns = ["batch", "flow", "", "ended", "of", "failed", "ETA"]
    show(out, table("", columns, (_row(batch, progress[batch.pk]) for batch in newest)))
    return FINE


def _row(batch: Batch, progress: Progress) -> list[Any]:
    eta = f"{progress.eta:%Y-%m-%d %H:%M} UTC" if progress.eta else ""
    return [
        batch.name, batch.flow, batches.status_of(batch), progress.ended, progress.total,
        progress.failed, eta,
    ]  # fmt: skip


def as_dict(batch: Batch, progress: Progress) -> dict[str, Any]:
    """A batch and its progress, by stable names."""
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
        **asdict(progress),
    }


def show_one(options: dict[str, Any], out: Any) -> int:
    batch = batches.find(options["name"])
    if options["watch"]:
        return _watch(batch, options, out)
    progress = batches.progress(batch)
    if options["json"]:
        out.write(as_json({**as_dict(batch, progress), "failures": first_failures(batch)}))
    else:
        show(out, _summary(batch, progress))
    return FINE


def first_failures(batch: Batch) -> list[dict[str, Any]]:
    """The first members that failed, in member order."""
    failed = batch.executions.failed().order_by("batch_seq")[:FIRST_FAILURES]
    return [dict(row) for row in failed.values("key", "error_kind", "error_message")]


def _summary(batch: Batch, progress: Progress) -> Group:
    rows = [
        ["batch", batch.name],
        ["flow", batch.flow],
        ["rules", batches.rules_of(batch) or "best effort"],
        ["state", batches.status_of(batch)],
        ["progress", str(progress)],
        ["ETA", f"{progress.eta:%Y-%m-%d %H:%M} UTC" if progress.eta else progress.unknown],
    ]
    parts = [table("", ["", ""], rows)]
    if progress.failed:
        failed = (failure.values() for failure in first_failures(batch))
        parts.append(table("\nFirst failures", ["key", "kind", "error"], map(list, failed)))
    return Group(*parts)


def _watch(batch: Batch, options: dict[str, Any], out: Any) -> int:
    """Update until the batch has ended: a live table on a terminal, elsewhere a line per change."""
    if options["json"] or not out.isatty():
        return _watch_lines(batch, options, out)
    with Live(console=console(out), auto_refresh=False) as live:
        for progress in _progress_until_end(batch, options["interval"]):
            live.update(_summary(batch, progress), refresh=True)
    return code_of(progress)


def _watch_lines(batch: Batch, options: dict[str, Any], out: Any) -> int:
    written = ""
    for progress in _progress_until_end(batch, options["interval"]):
        if str(progress) != written:
            written = str(progress)
            out.write(as_json(as_dict(batch, progress)) if options["json"] else written)
            out.flush()
    return code_of(progress)


def _progress_until_end(batch: Batch, interval: float) -> Iterator[Progress]:
    """The progress every `interval` seconds; the last one is of the batch when it had ended."""
    while True:
        batch.refresh_from_db()
        progress = batches.progress(batch)
        yield progress
        if batch.closed_at is not None and not progress.unfinished:
            return
        time.sleep(interval)


def code_of(progress: Progress) -> int:
    """The exit code, as of `queue run --drain`: did a member fail or get cancelled?"""
    return SOME_FAILED if progress.failed or progress.cancelled else FINE


def show_results(options: dict[str, Any], out: Any) -> int:
    batch, after = batches.find(options["name"]), options["after"]
    results = _results(batch, -1 if after is None else after, options["follow"])
    for result in islice(results, options["limit"]):
        out.write(as_json(asdict(result)) if options["jsonl"] else _line(result))
    return code_of(progress_of([batch])[batch.pk]) if options["follow"] else FINE


def _results(batch: Batch, after: int, follow: bool) -> Iterator[Result]:
    """The available results; with `follow` also later ones, until the batch has ended."""
    while True:
        batch.refresh_from_db()
        complete = batch.closed_at is not None and not batch_window.first_unfinished([batch.pk])
        for result in batches.results(batch, after):
            after = result.seq
            yield result
        if complete or not follow:
            return
        time.sleep(POLL_SECONDS)


def _line(result: Result) -> str:
    error = f"  {result.error_kind}: {result.error}" if result.error_kind else ""
    return f"{result.seq}  {result.key}  {result.state}{error}"
