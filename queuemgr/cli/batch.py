from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.cli import batch_output, import_file
from queuemgr.cli.config_options import above_zero, natural, positive
from queuemgr.cli.enqueue import items_of
from queuemgr.cli.output import by_command
from queuemgr.flows.flow import PRIORITIES, get_flow
from queuemgr.lifecycle.enqueue import priority_of
from queuemgr.operations import batches
from queuemgr.operations.audited_enqueue import audited_enqueue

NAME = "batch"
HELP = "executions enqueued together: followed, ended and handed over as one, in order"
EXAMPLES = """
  queue batch open nightly --fail-fast          the first that fails for good cancels the rest
  queue batch open nightly --window 20          none starts 20 or more beyond the first not yet ended
  queue batch add nightly arXiv:2101.00001 10.1000/xyz
  queue batch add nightly --file papers.jsonl   lines as `queue import` reads them; again changes nothing
  queue batch close nightly                     no more to come
  queue batch show nightly --watch              until it has ended
  queue batch results nightly --jsonl --follow  each as soon as its turn has come, in the order given
  queue batch cancel nightly --reason "wrong list"
  queue batch list --json
  exit codes: 0 done (results --follow, show --watch: all members done), 2 some lines were bad (add) or
  some members did not get done (results --follow, show --watch), 3 could not (why), 5 no database,
  64 wrong usage, 130 stopped; all in docs/operate.md
"""


def add_arguments(parser: Any) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, says in ACTIONS.items():
        sub = actions.add_parser(
            name, help=says, description=says, epilog="examples:" + _examples(name),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        if name != "list":
            sub.add_argument("name", help="the batch's name")
        OPTIONS.get(name, lambda sub: None)(sub)


ACTIONS = {
    "open": "make a batch",
    "add": "make members of these items, numbered in their order",
    "close": "nothing more is to come: it has ended when its members have",
    "cancel": "cancel what waits, ask what runs to stop, and close it",
    "show": "how far it is, when it is likely to be done, and what failed first",
    "list": f"the newest {batch_output.LISTED} batches",
    "results": "what came of its members, in the order given, up to the first not yet ended",
}


def _examples(action: str) -> str:
    lines = [line for line in EXAMPLES.splitlines() if line.startswith(f"  queue batch {action}")]
    codes = EXAMPLES[EXAMPLES.index("  exit codes") :]
    return "\n" + "\n".join(lines) + "\n" + codes


def _open_options(sub: Any) -> None:
    sub.add_argument("--flow", default="papers", help="which flow (default papers)")
    sub.add_argument("--fail-fast", action="store_true", help="the first failure cancels the rest")
    sub.add_argument(
        "--window", type=natural, default=0,
        help="how far work may start beyond the first not yet ended (default 0: any)",
    )  # fmt: skip


def _add_options(sub: Any) -> None:
    sub.add_argument("items", nargs="*", help="items, as `queue enqueue` takes them")
    sub.add_argument("--file", help="a file of lines, or - for standard input")
    sub.add_argument("--priority", default="normal", choices=PRIORITIES, help="default normal")


def _close_options(sub: Any) -> None:
    sub.add_argument("--reason", default="", help="why, for the record")


def _show_options(sub: Any) -> None:
    sub.add_argument("--json", action="store_true", help="one JSON object, stable names")
    sub.add_argument("--watch", action="store_true", help="until it has ended")
    sub.add_argument(
        "--every", type=above_zero, default=2, help="seconds between looks (default 2)"
    )


def _list_options(sub: Any) -> None:
    sub.add_argument("--json", action="store_true", help="JSON Lines, stable names")


def _results_options(sub: Any) -> None:
    sub.add_argument("--jsonl", action="store_true", help="JSON Lines, stable names")
    sub.add_argument("--follow", action="store_true", help="wait for the rest")
    sub.add_argument(
        "--after", type=natural, metavar="SEQ", help="only those behind this place (the first is 0)"
    )
    sub.add_argument("--limit", type=positive, help="at most so many")


OPTIONS: dict[str, Callable[[Any], None]] = {
    "open": _open_options,
    "add": _add_options,
    "close": _close_options,
    "cancel": _close_options,
    "show": _show_options,
    "list": _list_options,
    "results": _results_options,
}


def run(options: dict[str, Any], out: Any) -> int:
    return DOES[options["action"]](options, out)


def _open(options: dict[str, Any], out: Any) -> int:
    batch = batches.open_batch(
        options["name"], options["flow"], by_command(),
        fail_fast=options["fail_fast"], window=options["window"],
    )  # fmt: skip
    rules = batches.rules_of(batch)
    out.write(f"batch {batch.name} opened{f' ({rules})' if rules else ''}")
    return 0


def _add(options: dict[str, Any], out: Any) -> int:
    batch = batches.find(options["name"])
    flow, add = (
        get_flow(batch.flow),
        partial(batches.add, batch, priority=priority_of(options["priority"])),
    )
    if bool(options["file"]) == bool(options["items"]):
        raise BadInput("name items, or a file of them with --file, not both")
    with audited_enqueue(
        batch.flow, by_command(), priority=options["priority"], batch=batch.name
    ) as counted:
        if options["file"]:
            return import_file.parse_item(
                options["file"], flow, lambda some: counted(add(some)), out
            )
        out.write(str(counted(add(items_of(flow, options["items"])))))
    return 0


def _close(options: dict[str, Any], out: Any) -> int:
    batch = batches.find(options["name"])
    closed = batches.close(batch, by_command(options["reason"]))
    out.write(f"batch {batch.name} {'closed' if closed else 'was closed before'}")
    return 0


def _cancel(options: dict[str, Any], out: Any) -> int:
    batch = batches.find(options["name"])
    before = batch.cancelled_at is not None
    cancelled = batches.cancel(batch, by_command(options["reason"]))
    said = "was cancelled before" if before else f"cancelled: {cancelled:,} had not ended"
    out.write(f"batch {batch.name} {said}")
    return 0


DOES: dict[str, Callable[[dict[str, Any], Any], int]] = {
    "open": _open,
    "add": _add,
    "close": _close,
    "cancel": _cancel,
    "show": batch_output.show_one,
    "list": batch_output.show_list,
    "results": batch_output.show_results,
}
