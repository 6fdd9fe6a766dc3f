from __future__ import annotations

import time
from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.base.safe_text import as_json
from queuemgr.base.scheduler_lock import database_now
from queuemgr.cli import bulk_output
from queuemgr.cli.arguments import Action, action_parsers, add_interval, add_reason, natural
from queuemgr.cli.output import by_command
from queuemgr.models import ActionState, BulkAction
from queuemgr.operations import bulk
from queuemgr.operations.bulk import BulkRequest
from queuemgr.operations.bulk import runner as bulk_runner
from queuemgr.operations.bulk.actions import ACTIONS, ARGUMENTS
from queuemgr.operations.bulk.progress import serialize
from queuemgr.reporting.filtering import FILTERS

NAME = "bulk"
HELP = "bulk actions: apply one action to every execution that matches a filter, in the background"
EXAMPLES = """
  queue bulk preview retry state=failed error_kind=network      count and sample; changes nothing
  queue bulk start retry state=failed error_kind=network --per-minute 300 --reason "proxy repaired"
  queue bulk start cancel flow=orders batch=nightly --watch     wait until it has ended
  queue bulk start priority key_prefix=order-10 --priority high
  queue bulk start reschedule limit=host:api.example.org:443 --run-after "2026-11-28 06:00"
  queue bulk start skip --everything --reason "wrong database"
  queue bulk show 7 --watch
  queue bulk stop 7 --reason "wrong group"                      takes effect within one batch
  queue bulk resume 7                                           a new action for the rest
  queue bulk list --json
  queue bulk run                                                run them here, without a worker
  exit codes: 0 success, 2 it ended early or some rows failed (start --watch, show --watch, run),
  3 refused (with the reason), 5 no database, 64 wrong usage, 130 interrupted (the action continues);
  all in docs/operate.md
"""

POLL_SECONDS = 1.0


def add_arguments(parser: Any) -> None:
    for name, sub in action_parsers(parser, NAME, SUBCOMMANDS, EXAMPLES):
        SUBCOMMANDS[name].add_options(sub)


def _request_options(sub: Any) -> None:
    actions = "; ".join(f"{action.name}: each {action.does}" for action in ACTIONS.values())
    sub.add_argument("verb", choices=ACTIONS, help=actions)
    sub.add_argument("filters", nargs="*", metavar="NAME=VALUE", help=f"one of {', '.join(FILTERS)}")
    sub.add_argument("--everything", action="store_true", help="no filter: every execution")
    for name, looks in ARGUMENTS.items():
        sub.add_argument(f"--{name.replace('_', '-')}", help=looks)
    sub.add_argument(
        "--per-minute", type=natural,
        help="maximum number of rows changed a minute; 0: unlimited (default: "
        f"SLUICE_BULK_RETRIES_PER_MINUTE for retries of more than {bulk.AT_ONCE:,}, else 0)",
    )  # fmt: skip
    sub.add_argument("--json", action="store_true", help="one JSON object, stable names")


def _start_options(sub: Any) -> None:
    _request_options(sub)
    add_reason(sub)
    sub.add_argument("--watch", action="store_true", help="wait until it has ended")


def _stop_options(sub: Any) -> None:
    sub.add_argument("id", type=int, help="its number in `queue bulk list`")
    add_reason(sub)


def _show_options(sub: Any) -> None:
    sub.add_argument("id", type=int, help="its number")
    sub.add_argument("--json", action="store_true", help="one JSON object, stable names")
    sub.add_argument("--watch", action="store_true", help="wait until it has ended")
    add_interval(sub, POLL_SECONDS)


def _list_options(sub: Any) -> None:
    sub.add_argument("--json", action="store_true", help="JSON Lines, stable names")


def run(options: dict[str, Any], out: Any) -> int:
    return SUBCOMMANDS[options["action"]].run(options, out)


def _preview(options: dict[str, Any], out: Any) -> int:
    bulk_output.preview(bulk.preview(_request(options)), out, as_json_line=options["json"])
    return 0


def _start(options: dict[str, Any], out: Any) -> int:
    action = bulk.begin(_request(options), by_command(options["reason"]))
    if not options["watch"]:
        _print(action, options, out, f"started: {bulk_output.summary_line(action, database_now())}")
        return 0
    return _watch(action.pk, POLL_SECONDS, options, out)


def _stop(options: dict[str, Any], out: Any) -> int:
    action = bulk.stop(options["id"], by_command(options["reason"]))
    out.write(bulk_output.summary_line(action, database_now()))
    return 0


def _resume(options: dict[str, Any], out: Any) -> int:
    action = bulk.resume(options["id"], by_command(options["reason"]))
    out.write(f"started: {bulk_output.summary_line(action, database_now())}")
    return 0


def _show(options: dict[str, Any], out: Any) -> int:
    if options["watch"]:
        return _watch(options["id"], options["interval"], options, out)
    action = bulk.get_or_error(options["id"])
    if options["json"]:
        out.write(as_json(serialize(action, database_now())))
    else:
        bulk_output.details(serialize(action, database_now()), out)
    return 0


def _list(options: dict[str, Any], out: Any) -> int:
    bulk_output.newest(out, as_json_lines=options["json"])
    return 0


def _run(options: dict[str, Any], out: Any) -> int:
    """Do what the housekeeping worker does, until no action is running."""
    ids = list(BulkAction.objects.running().values_list("pk", flat=True))
    while BulkAction.objects.running().exists():
        if not bulk_runner.run():
            time.sleep(POLL_SECONDS)
    for pk in ids:
        out.write(bulk_output.summary_line(bulk.get_or_error(pk), database_now()))
    return max((_code(bulk.get_or_error(pk)) for pk in ids), default=0)


def _watch(pk: int, interval: float, options: dict[str, Any], out: Any) -> int:
    action = bulk_output.watch(pk, interval)
    _print(action, options, out, bulk_output.summary_line(action, database_now()))
    return _code(action)


def _print(action: BulkAction, options: dict[str, Any], out: Any, line: str) -> None:
    out.write(as_json(serialize(action, database_now())) if options["json"] else line)


def _code(action: BulkAction) -> int:
    return 0 if action.state == ActionState.DONE and not action.failed else 2


def _request(options: dict[str, Any]) -> BulkRequest:
    filters = dict(_filter(text) for text in options["filters"])
    if bool(filters) == bool(options["everything"]):
        raise BadInput("give a filter such as state=failed, or --everything for every execution")
    arguments = {name: options[name] for name in ARGUMENTS if options[name] is not None}
    return BulkRequest(options["verb"], filters, arguments, options["per_minute"])


def _filter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise BadInput(f"{text!r} is not a filter; format: state=failed")
    if name != "ids":
        return name, value
    try:
        return name, [int(number) for number in value.split(",")]
    except ValueError:
        raise BadInput(f"ids {value[:60]!r} are not comma-separated numbers") from None


SUBCOMMANDS = {
    "preview": Action("count and sample of what matches; changes nothing", _preview, _request_options),
    "start": Action("start an action on the executions that match now", _start, _start_options),
    "stop": Action("stop it; what it has changed stays changed", _stop, _stop_options),
    "resume": Action("start a new action for the rest of a stopped one", _resume, _stop_options),
    "show": Action("its progress and result", _show, _show_options),
    "list": Action("the newest actions", _list, _list_options),
    "run": Action("run all actions in this process until they have ended", _run, lambda sub: None),
}
