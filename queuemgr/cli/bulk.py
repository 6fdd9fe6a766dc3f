from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.base.safe_text import as_json
from queuemgr.base.scheduler_lock import database_now
from queuemgr.cli import bulk_output
from queuemgr.cli.config_options import above_zero, natural
from queuemgr.cli.output import by_command
from queuemgr.models import ActionState, BulkAction
from queuemgr.operations import bulk
from queuemgr.operations.bulk import Wanted
from queuemgr.operations.bulk import runner as bulk_runner
from queuemgr.operations.bulk.actions import ACTIONS, ARGUMENTS
from queuemgr.operations.bulk.progress import facts_of
from queuemgr.reporting.filtering import FILTERS

NAME = "bulk"
HELP = "one thing done with all executions a filter meets, in the background: any number of them"
EXAMPLES = """
  queue bulk preview retry state=failed error_kind=network      count and sample; changes nothing
  queue bulk start retry state=failed error_kind=network --per-minute 300 --reason "proxy mended"
  queue bulk start cancel flow=papers batch=nightly --watch     and watch it to its end
  queue bulk start priority key_prefix=arxiv:2601 --priority high
  queue bulk start move limit=host:arxiv.org:443 --run-after "2026-11-28 06:00"
  queue bulk start skip --everything --reason "wrong database"
  queue bulk show 7 --watch
  queue bulk stop 7 --reason "wrong group"                      takes effect within one batch
  queue bulk go-on 7                                            a new action with the rest
  queue bulk list --json
  queue bulk run                                                work on them here: no worker needed
  exit codes: 0 done, 2 it ended early or some rows failed (start --watch, show --watch, run),
  3 could not (why), 5 no database, 64 wrong usage, 130 stopped watching: the action goes on; all in
  docs/operate.md
"""

SECONDS_BETWEEN_LOOKS = 1.0


def add_arguments(parser: Any) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, (says, _, options) in SUBCOMMANDS.items():
        sub = actions.add_parser(
            name, help=says, description=says, epilog="examples:" + _examples(name),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        options(sub)


def _examples(action: str) -> str:
    lines = [line for line in EXAMPLES.splitlines() if line.startswith(f"  queue bulk {action}")]
    return "\n" + "\n".join([*lines, EXAMPLES[EXAMPLES.index("  exit codes") :]])


def _wanted_options(sub: Any) -> None:
    verbs = "; ".join(f"{verb.name}: each {verb.does}" for verb in ACTIONS.values())
    sub.add_argument("verb", choices=ACTIONS, help=verbs)
    sub.add_argument(
        "filters", nargs="*", metavar="NAME=VALUE", help=f"one of {', '.join(FILTERS)}"
    )
    sub.add_argument("--everything", action="store_true", help="no filter: every execution")
    for name, looks in ARGUMENTS.items():
        sub.add_argument(f"--{name.replace('_', '-')}", help=looks)
    sub.add_argument(
        "--per-minute", type=natural,
        help="rows it may change a minute; 0: as fast as it goes (default: "
        f"SLUICE_BULK_RETRIES_PER_MINUTE for retries of more than {bulk.AT_ONCE:,}, else 0)",
    )  # fmt: skip
    sub.add_argument("--json", action="store_true", help="one JSON object, stable names")


def _start_options(sub: Any) -> None:
    _wanted_options(sub)
    sub.add_argument("--reason", default="", help="why, for the record")
    sub.add_argument("--watch", action="store_true", help="until it has ended")


def _stop_options(sub: Any) -> None:
    sub.add_argument("id", type=int, help="its number, as `queue bulk list` shows it")
    sub.add_argument("--reason", default="", help="why, for the record")


def _show_options(sub: Any) -> None:
    sub.add_argument("id", type=int, help="its number")
    sub.add_argument("--json", action="store_true", help="one JSON object, stable names")
    sub.add_argument("--watch", action="store_true", help="until it has ended")
    sub.add_argument(
        "--every", type=above_zero, default=1, help="seconds between looks (default 1)"
    )


def _list_options(sub: Any) -> None:
    sub.add_argument("--json", action="store_true", help="JSON Lines, stable names")


def run(options: dict[str, Any], out: Any) -> int:
    _, act, _ = SUBCOMMANDS[options["action"]]
    return act(options, out)


def _preview(options: dict[str, Any], out: Any) -> int:
    bulk_output.preview(bulk.preview(_wanted(options)), out, as_line=options["json"])
    return 0


def _start(options: dict[str, Any], out: Any) -> int:
    action = bulk.begin(_wanted(options), by_command(options["reason"]))
    if not options["watch"]:
        _tell(action, options, out, f"started: {bulk_output.in_a_line(action, database_now())}")
        return 0
    return _watched(action.pk, SECONDS_BETWEEN_LOOKS, options, out)


def _stop(options: dict[str, Any], out: Any) -> int:
    action = bulk.stop(options["id"], by_command(options["reason"]))
    out.write(bulk_output.in_a_line(action, database_now()))
    return 0


def _go_on(options: dict[str, Any], out: Any) -> int:
    action = bulk.go_on(options["id"], by_command(options["reason"]))
    out.write(f"started: {bulk_output.in_a_line(action, database_now())}")
    return 0


def _show(options: dict[str, Any], out: Any) -> int:
    if options["watch"]:
        return _watched(options["id"], options["every"], options, out)
    action = bulk.found(options["id"])
    if options["json"]:
        out.write(as_json(facts_of(action, database_now())))
    else:
        bulk_output.facts(facts_of(action, database_now()), out)
    return 0


def _list(options: dict[str, Any], out: Any) -> int:
    bulk_output.newest(out, as_lines=options["json"])
    return 0


def _run(options: dict[str, Any], out: Any) -> int:
    """Do the housekeeping worker's part until no action is left running."""
    worked_on = list(BulkAction.objects.running().values_list("pk", flat=True))
    while BulkAction.objects.running().exists():
        if not bulk_runner.run():
            time.sleep(SECONDS_BETWEEN_LOOKS)
    for pk in worked_on:
        out.write(bulk_output.in_a_line(bulk.found(pk), database_now()))
    return max((_code(bulk.found(pk)) for pk in worked_on), default=0)


def _watched(pk: int, every: float, options: dict[str, Any], out: Any) -> int:
    action = bulk_output.watch(pk, every)
    _tell(action, options, out, bulk_output.in_a_line(action, database_now()))
    return _code(action)


def _tell(action: BulkAction, options: dict[str, Any], out: Any, line: str) -> None:
    out.write(as_json(facts_of(action, database_now())) if options["json"] else line)


def _code(action: BulkAction) -> int:
    return 0 if action.state == ActionState.DONE and not action.failed else 2


def _wanted(options: dict[str, Any]) -> Wanted:
    filters = dict(_filter(text) for text in options["filters"])
    if bool(filters) == bool(options["everything"]):
        raise BadInput("give a filter such as state=failed, or --everything for every execution")
    arguments = {name: options[name] for name in ARGUMENTS if options[name] is not None}
    return Wanted(options["verb"], filters, arguments, options["per_minute"])


def _filter(text: str) -> tuple[str, Any]:
    name, is_given, value = text.partition("=")
    if not is_given:
        raise BadInput(f"{text!r} is no filter; write it as state=failed")
    if name != "ids":
        return name, value
    try:
        return name, [int(number) for number in value.split(",")]
    except ValueError:
        raise BadInput(f"ids {value[:60]!r} are not numbers with commas between them") from None


Act = Callable[[dict[str, Any], Any], int]
SUBCOMMANDS: dict[str, tuple[str, Act, Callable[[Any], None]]] = {
    "preview": ("what it would meet: count and sample; changes nothing", _preview, _wanted_options),
    "start": ("start one, on what its filter meets now", _start, _start_options),
    "stop": ("let it change no more; what it changed stays", _stop, _stop_options),
    "go-on": ("start a new one with what a stopped one left", _go_on, _stop_options),
    "show": ("how far it has come, and what it came to", _show, _show_options),
    "list": ("the newest ones", _list, _list_options),
    "run": ("work on them in this process until none is left", _run, lambda sub: None),
}
