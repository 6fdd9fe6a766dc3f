"""`queue batch`: opening, filling and ending batches, and following them."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.base.safe_text import as_json
from queuemgr.cli import arguments, enqueue, import_file
from queuemgr.cli.arguments import JSON_LINES, JSON_OBJECT, NEW_FLOW, PRIORITY, REASON
from queuemgr.cli.exit_codes import FINE, SOME_FAILED
from queuemgr.cli.item_options import add_item_options, asked_by
from queuemgr.cli.output import Table, by_command, show, table, write_json
from queuemgr.cli.subcommands import Argument, Options, group, option, subcommand
from queuemgr.flows.call import Call
from queuemgr.flows.flow import get_flow
from queuemgr.lifecycle import batch_window
from queuemgr.models import Batch, BatchEvent
from queuemgr.operations import batches
from queuemgr.operations.enqueueing import choose_flow
from queuemgr.reporting.batch_callbacks import callbacks_of
from queuemgr.reporting.batch_progress import BatchProgress, progress_of
from queuemgr.reporting.batch_results import Result
from queuemgr.reporting.stuck import in_words, stuck_members

NAME = option("name", help="the batch's name")
LISTED = 50
FIRST_FAILURES = 10
CALLBACK_FACTS = ("event", "flow", "key", "fired", "state")
POLL_SECONDS = 1.0
"""Between polls for the results of unfinished members."""

group(
    "batch",
    "batches: executions enqueued together, with progress as a whole and results in order",
    """\
exit codes: 0 success (results --follow, show --watch: all members done), 2 some lines were invalid
(add) or some members are not done (results --follow, show --watch), 3 refused (with the reason),
5 no database, 64 wrong usage, 130 interrupted; all in docs/operate.md""",
)


def callback(text: str) -> Call:
    """An argparse type: a flow, and after = the payload of the callback in it, as a JSON object."""
    flow, equals, payload = text.partition("=")
    try:
        given = json.loads(payload) if equals else {}
    except (ValueError, RecursionError):
        given = None
    if not flow or not isinstance(given, dict):
        raise argparse.ArgumentTypeError(
            f'{text!r:.80} is invalid; format: shop.report or shop.report={{"day": 3}}'
        )
    return Call(flow, given)


def _callback(event: str, when: str) -> Argument:
    name = event.replace("_", "-")
    about = f"what to enqueue {when}: a flow, and its payload as JSON"
    return option(f"--{name}", type=callback, metavar="FLOW[=JSON]", help=about)


@subcommand(
    "batch open",
    NAME,
    NEW_FLOW,
    _callback("on_complete", "when all members have ended"),
    _callback("on_success", "when all are done or skipped"),
    _callback("on_failure", "when all have ended and not all are done or skipped"),
    option("--parent", metavar="BATCH", help="the batch that completes after this one"),
    option("--fail-fast", action="store_true", help="the first failure cancels the rest"),
    option("--allowances", default="", help="what its members may use together, as 5 usd in total"),
    option(
        "--window", type=arguments.natural, default=0,
        help="members that may start beyond the first unfinished one (default 0: unlimited)",
    ),
    JSON_OBJECT,
)  # fmt: skip
def open_batch(options: Options, out: Any) -> None:
    """create a batch

    queue batch open nightly --fail-fast          the first final failure cancels the rest
    queue batch open nightly --allowances "5 usd in total"
    queue batch open nightly --window 20          start at most 20 beyond the first unfinished member
    queue batch open nightly --on-success 'shop.report={"day": 3}' --on-failure shop.alarm
    """
    callbacks = {event: options[event] for event in BatchEvent.values if options[event]}
    batch = batches.open_batch(
        options["name"], choose_flow(options["flow"]).name, by_command(),
        fail_fast=options["fail_fast"], window=options["window"], callbacks=callbacks,
        allowances=options["allowances"],
        parent=batches.find(options["parent"]) if options["parent"] else None,
    )  # fmt: skip
    rules = batches.rules_of(batch)
    out.say(f"batch {batch.name} opened{f' ({rules})' if rules else ''}", batch=batch.name, flow=batch.flow)


@subcommand(
    "batch add",
    NAME,
    option("items", nargs="*", help="items, as `queue enqueue` takes them"),
    option("--file", help="a file of lines, or - for standard input"),
    PRIORITY,
    JSON_OBJECT,
    add_item_options,
)
def add(options: Options, out: Any) -> int | None:
    """add these items as members, in this order

    queue batch add nightly order-1001 order-1002
    queue batch add nightly --file orders.txt     lines as for `queue import`; repeating it changes nothing
    """
    batch = batches.find(options["name"])
    if bool(options["file"]) == bool(options["items"]):
        raise BadInput("name items, or a file of them with --file, not both")
    flow = get_flow(batch.flow)
    asked = asked_by(flow, options)
    with enqueue.enqueuing(flow, options["priority"], batch) as add_all:
        if options["file"]:
            return import_file.import_lines(options["file"], flow, add_all, out, asked=asked)
        added = add_all(list(asked.of_each(flow, enqueue.items_of(flow, options["items"]))))
        out.say(str(added), **enqueue.counts_of(added))
    return None


@subcommand("batch close", NAME, REASON, JSON_OBJECT)
def close(options: Options, out: Any) -> None:
    """accept no more members; it ends when its members have

    queue batch close nightly                     no more members
    """
    batch = batches.find(options["name"])
    closed = batches.close(batch, by_command(options["reason"]))
    said = "closed" if closed else "was closed already"
    out.say(f"batch {batch.name} {said}", batch=batch.name, changed=bool(closed))


@subcommand("batch cancel", NAME, REASON, JSON_OBJECT)
def cancel(options: Options, out: Any) -> None:
    """cancel waiting members, ask running ones to stop, close it

    queue batch cancel nightly --reason "wrong list"
    """
    batch = batches.find(options["name"])
    before = batch.cancelled_at is not None
    cancelled = batches.cancel(batch, by_command(options["reason"]))
    result = "was cancelled already" if before else f"cancelled: {cancelled:,} unfinished members"
    out.say(f"batch {batch.name} {result}", batch=batch.name, cancelled=cancelled)


@subcommand(
    "batch show",
    NAME,
    JSON_OBJECT,
    option("--watch", action="store_true", help="update until the batch has ended"),
    arguments.interval(2),
)
def show_one(options: Options, out: Any) -> int | None:
    """progress, ETA and first failures

    queue batch show nightly --watch              until the batch has ended
    """
    batch = batches.find(options["name"])
    if options["watch"]:
        return _watch(batch, options, out)
    progress = batches.progress(batch)
    if options["json"]:
        called = [{name: getattr(c, name) for name in CALLBACK_FACTS} for c in callbacks_of(batch)]
        more = {"failures": _first_failures(batch), "stopped": _stopped(batch), "callbacks": called}
        out.write(as_json({**_as_dict(batch, progress), **more}))
    else:
        show(out, *_summary(batch, progress))
    return None


def _as_dict(batch: Batch, progress: BatchProgress) -> dict[str, Any]:
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
        "parent": batch.parent.name if batch.parent else None,
        "completed": batch.completed_at,
        "succeeded": batch.succeeded,
        **progress.as_data(),
    }


def _stopped(batch: Batch) -> list[str]:
    """Why none of its members can start, in sentences; empty while any may."""
    return in_words(stuck_members(batch))


def _first_failures(batch: Batch) -> list[dict[str, Any]]:
    """The first members that failed, in member order."""
    failed = batch.executions.failed().order_by("batch_seq")[:FIRST_FAILURES]
    return [dict(row) for row in failed.values("key", "error_kind", "error_message")]


def _summary(batch: Batch, progress: BatchProgress) -> list[Table]:
    rows = [
        ["batch", batch.name],
        ["flow", batch.flow],
        ["rules", batches.rules_of(batch) or "best effort"],
        ["state", batches.status_of(batch)],
        ["progress", str(progress)],
        ["ETA", progress.eta_text or progress.unknown],
        *([["in", batch.parent.name]] if batch.parent else []),
        *([callback.event, str(callback)] for callback in callbacks_of(batch)),
        *(["", line] for line in _stopped(batch)),
    ]
    parts = [table("", ["", ""], rows)]
    if progress.failed:
        failed = (failure.values() for failure in _first_failures(batch))
        parts.append(table("\nFirst failures", ["key", "kind", "error"], failed))
    return parts


def _watch(batch: Batch, options: Options, out: Any) -> int:
    """Update until the batch has ended: a live table on a terminal, elsewhere a line per change."""
    if out.isatty() and not options["json"]:
        return _draw(batch, options["interval"], out)
    written: list[str] = []
    for progress in _progress_until_end(batch, options["interval"]):
        stopped = _stopped(batch)
        if [str(progress), *stopped] != written:
            written = [str(progress), *stopped]
            facts = _as_dict(batch, progress) | {"stopped": stopped}
            out.write(as_json(facts) if options["json"] else "\n".join(written))
            out.flush()
    return _exit_code(progress)


def _draw(batch: Batch, interval: float, out: Any) -> int:
    from rich.live import Live

    from queuemgr.cli import terminal

    with Live(console=terminal.console(out), auto_refresh=False) as live:
        for progress in _progress_until_end(batch, interval):
            live.update(terminal.drawing(_summary(batch, progress)), refresh=True)
    return _exit_code(progress)


def _progress_until_end(batch: Batch, interval: float) -> Iterator[BatchProgress]:
    """The progress every `interval` seconds; the last one is of the batch when it had ended."""
    while True:
        batch.refresh_from_db()
        progress = batches.progress(batch)
        yield progress
        if batch.closed_at is not None and not progress.unfinished:
            return
        time.sleep(interval)


def _exit_code(progress: BatchProgress) -> int:
    """As of `queue run --drain`: did a member fail or get cancelled?"""
    return SOME_FAILED if progress.failed or progress.cancelled else FINE


@subcommand("batch list", JSON_LINES)
def show_list(options: Options, out: Any) -> None:
    """the newest batches

    queue batch list --json
    """
    newest = list(Batch.objects.select_related("parent")[:LISTED])
    progress = progress_of(newest)
    if options["json"]:
        write_json(out, (_as_dict(batch, progress[batch.pk]) for batch in newest))
        return
    columns = ["batch", "flow", "", "ended", "of", "failed", "ETA"]
    show(out, table("", columns, (_row(batch, progress[batch.pk]) for batch in newest)))


def _row(batch: Batch, progress: BatchProgress) -> list[Any]:
    return [
        batch.name, batch.flow, batches.status_of(batch), progress.ended, progress.total,
        progress.failed, progress.eta_text,
    ]  # fmt: skip


@subcommand(
    "batch results",
    NAME,
    option("--json", "--jsonl", dest="jsonl", action="store_true", help="JSON Lines, stable names"),
    option("--follow", action="store_true", help="wait for the remaining results"),
    option(
        "--after", type=arguments.natural, default=-1, metavar="SEQ",
        help="only members after this one (the first is 0)",
    ),
    option("--limit", type=arguments.positive, help="maximum number of results"),
)  # fmt: skip
def show_results(options: Options, out: Any) -> int:
    """results in member order, up to the first unfinished member

    queue batch results nightly --jsonl --follow  results in member order, each as soon as it is available
    """
    batch = batches.find(options["name"])
    results = _results(batch, options["after"], options["follow"])
    for result in islice(results, options["limit"]):
        out.write(as_json(asdict(result)) if options["jsonl"] else _line(result))
    return _exit_code(progress_of([batch])[batch.pk]) if options["follow"] else FINE


def _results(batch: Batch, after: int, follow: bool) -> Iterator[Result]:
    """The available results; with `follow` also later ones, until the batch has ended."""
    said: list[str] = []
    while True:
        batch.refresh_from_db()
        complete = batch.closed_at is not None and not batch_window.first_unfinished([batch.pk])
        for result in batches.results(batch, after):
            after = result.seq
            yield result
        if complete or not follow:
            return
        said = _say_once(_stopped(batch), said)
        time.sleep(POLL_SECONDS)


def _say_once(lines: list[str], said: list[str]) -> list[str]:
    """On standard error, which is not where the results go: why none comes, if it is not said already."""
    if lines and lines != said:
        sys.stderr.write("\n".join(lines) + "\n")
        sys.stderr.flush()
    return lines


def _line(result: Result) -> str:
    error = f"  {result.error_kind}: {result.error}" if result.error_kind else ""
    return f"{result.seq}  {result.key}  {result.state}{error}"
