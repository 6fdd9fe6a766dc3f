from __future__ import annotations

from functools import partial
from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.cli import batch_output, import_file
from queuemgr.cli.arguments import Action, action_parsers, add_interval, add_reason, natural, positive
from queuemgr.cli.enqueue import items_of
from queuemgr.cli.output import by_command
from queuemgr.flows.flow import PRIORITIES, get_flow
from queuemgr.lifecycle.enqueue import priority_of
from queuemgr.operations import batches
from queuemgr.operations.audited_enqueue import audited_enqueue
from queuemgr.operations.flow_choice import choose_flow

NAME = "batch"
HELP = "batches: executions enqueued together, with progress as a whole and results in order"
EXAMPLES = """
  queue batch open nightly --fail-fast          the first final failure cancels the rest
  queue batch open nightly --window 20          start at most 20 beyond the first unfinished member
  queue batch add nightly order-1001 order-1002
  queue batch add nightly --file orders.txt     lines as for `queue import`; repeating it changes nothing
  queue batch close nightly                     no more members
  queue batch show nightly --watch              until the batch has ended
  queue batch results nightly --jsonl --follow  results in member order, each as soon as it is available
  queue batch cancel nightly --reason "wrong list"
  queue batch list --json
  exit codes: 0 success (results --follow, show --watch: all members done), 2 some lines were invalid
  (add) or some members are not done (results --follow, show --watch), 3 refused (with the reason),
  5 no database, 64 wrong usage, 130 interrupted; all in docs/operate.md
"""


def add_arguments(parser: Any) -> None:
    for name, sub in action_parsers(parser, NAME, ACTIONS, EXAMPLES):
        if name != "list":
            sub.add_argument("name", help="the batch's name")
        ACTIONS[name].add_options(sub)


def _open_options(sub: Any) -> None:
    sub.add_argument("--flow", help="which flow (default SLUICE_DEFAULT_FLOW, else the only one)")
    sub.add_argument("--fail-fast", action="store_true", help="the first failure cancels the rest")
    sub.add_argument(
        "--window", type=natural, default=0,
        help="members that may start beyond the first unfinished one (default 0: unlimited)",
    )  # fmt: skip


def _add_options(sub: Any) -> None:
    sub.add_argument("items", nargs="*", help="items, as `queue enqueue` takes them")
    sub.add_argument("--file", help="a file of lines, or - for standard input")
    sub.add_argument("--priority", default="normal", choices=PRIORITIES, help="default normal")


def _show_options(sub: Any) -> None:
    sub.add_argument("--json", action="store_true", help="one JSON object, stable names")
    sub.add_argument("--watch", action="store_true", help="update until the batch has ended")
    add_interval(sub, 2)


def _list_options(sub: Any) -> None:
    sub.add_argument("--json", action="store_true", help="JSON Lines, stable names")


def _results_options(sub: Any) -> None:
    sub.add_argument("--jsonl", action="store_true", help="JSON Lines, stable names")
    sub.add_argument("--follow", action="store_true", help="wait for the remaining results")
    sub.add_argument(
        "--after", type=natural, metavar="SEQ", help="only members after this one (the first is 0)"
    )
    sub.add_argument("--limit", type=positive, help="maximum number of results")


def run(options: dict[str, Any], out: Any) -> int:
    return ACTIONS[options["action"]].run(options, out)


def _open(options: dict[str, Any], out: Any) -> int:
    batch = batches.open_batch(
        options["name"], choose_flow(options["flow"]).name, by_command(),
        fail_fast=options["fail_fast"], window=options["window"],
    )  # fmt: skip
    rules = batches.rules_of(batch)
    out.write(f"batch {batch.name} opened{f' ({rules})' if rules else ''}")
    return 0


def _add(options: dict[str, Any], out: Any) -> int:
    batch = batches.find(options["name"])
    flow, add = (get_flow(batch.flow), partial(batches.add, batch, priority=priority_of(options["priority"])))
    if bool(options["file"]) == bool(options["items"]):
        raise BadInput("name items, or a file of them with --file, not both")
    with audited_enqueue(batch.flow, by_command(), priority=options["priority"], batch=batch.name) as counted:
        if options["file"]:
            return import_file.import_lines(options["file"], flow, lambda some: counted(add(some)), out)
        out.write(str(counted(add(items_of(flow, options["items"])))))
    return 0


def _close(options: dict[str, Any], out: Any) -> int:
    batch = batches.find(options["name"])
    closed = batches.close(batch, by_command(options["reason"]))
    out.write(f"batch {batch.name} {'closed' if closed else 'was closed already'}")
    return 0


def _cancel(options: dict[str, Any], out: Any) -> int:
    batch = batches.find(options["name"])
    before = batch.cancelled_at is not None
    cancelled = batches.cancel(batch, by_command(options["reason"]))
    result = "was cancelled already" if before else f"cancelled: {cancelled:,} unfinished members"
    out.write(f"batch {batch.name} {result}")
    return 0


ACTIONS = {
    "open": Action("create a batch", _open, _open_options),
    "add": Action("add these items as members, in this order", _add, _add_options),
    "close": Action("accept no more members; it ends when its members have", _close, add_reason),
    "cancel": Action("cancel waiting members, ask running ones to stop, close it", _cancel, add_reason),
    "show": Action("progress, ETA and first failures", batch_output.show_one, _show_options),
    "list": Action(f"the newest {batch_output.LISTED}", batch_output.show_list, _list_options),
    "results": Action(
        "results in member order, up to the first unfinished member",
        batch_output.show_results,
        _results_options,
    ),
}
