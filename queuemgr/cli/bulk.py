"""`queue bulk`: starting bulk actions, and following them."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import fields
from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.base.safe_text import as_json
from queuemgr.base.scheduler_lock import database_now
from queuemgr.cli import output
from queuemgr.cli.arguments import JSON_LINES, JSON_OBJECT, REASON, interval, natural, past, row_id
from queuemgr.cli.output import by_command, show_fields, table, write_json
from queuemgr.cli.progress_bar import bar, shown
from queuemgr.cli.subcommands import Options, given, group, option, subcommand
from queuemgr.models import ActionState, BulkAction
from queuemgr.operations import bulk
from queuemgr.operations.bulk import BulkPreview, BulkRequest, progress, runner
from queuemgr.operations.bulk.actions import ACTIONS, ARGUMENTS
from queuemgr.reporting.estimate_ranges import about
from queuemgr.reporting.filtering import FILTERS, parse_time

POLL_SECONDS = 1.0
LISTED = 50
CONFIRM = option(
    "--confirm", type=natural, metavar="COUNT", help="for cancel, skip, retry_from_start: how many at most"
)
WATCH = option("--watch", action="store_true", help="wait until it has ended")
REQUEST = (
    option(
        "bulk_action", choices=ACTIONS,
        help="; ".join(f"{action.name}: each {action.description}" for action in ACTIONS.values()),
    ),
    option("filters", nargs="*", metavar="NAME=VALUE", help=f"one of {', '.join(FILTERS)}"),
    option("--everything", action="store_true", help="no filter: every execution"),
    *(option(f"--{name.replace('_', '-')}", help=looks) for name, looks in ARGUMENTS.items()),
    option(
        "--per-minute", type=natural,
        help="maximum number of rows changed a minute; 0: unlimited (default: "
        f"SLUICE_BULK_RETRIES_PER_MINUTE for retries of more than {bulk.AT_ONCE:,}, else 0)",
    ),
    JSON_OBJECT,
)  # fmt: skip

group(
    "bulk",
    "bulk actions: apply one action to every execution that matches a filter, in the background",
    """\
exit codes: 0 success, 2 it ended early or some rows failed (start --watch, show --watch, run),
3 refused (with the reason), 5 no database, 64 wrong usage, 130 interrupted (the action continues);
all in docs/operate.md""",
)


@subcommand("bulk preview", *REQUEST)
def preview(options: Options, out: Any) -> None:
    """count and sample of what matches; changes nothing

    queue bulk preview retry state=failed error_kind=network      count and sample; changes nothing
    """
    counted = bulk.preview(_request(options))
    if options["json"]:
        out.write(as_json(_preview_as_dict(counted)))
        return
    more = "more than " if counted.more else ""
    out.write(f"{more}{counted.matched:,} would change: each {counted.action.description}")
    if counted.left_alone:
        left = ", ".join(f"{n:,} {state}" for state, n in counted.left_alone.items())
        out.write(f"these match too and are left unchanged: {left}")
    if counted.per_minute:
        out.write(f"at most {counted.per_minute:,} a minute by default")
    rows = ([str(e), e.status, e.step, _error(e)] for e in counted.sample)
    if counted.sample:
        output.show(out, table("\nSample", ["execution", "status", "step", "error"], rows))


def _error(execution: Any) -> str:
    return f"{execution.error_kind}: {execution.error_message[:120]}" if execution.error_kind else ""


def _preview_as_dict(preview: BulkPreview) -> dict[str, Any]:
    values = {field.name: getattr(preview, field.name) for field in fields(preview) if field.name != "action"}
    sample = [{"id": e.pk, "flow": e.flow, "key": e.key, "status": e.status} for e in preview.sample]
    return {"verb": preview.action.name, **values, "sample": sample}


@subcommand("bulk start", *REQUEST, CONFIRM, REASON, WATCH)
def start(options: Options, out: Any) -> int | None:
    """start an action on the executions that match now

    queue bulk start retry state=failed error_kind=network --per-minute 300 --reason "proxy repaired"
    queue bulk start cancel flow=orders batch=nightly --confirm 120 --reason "wrong prices" --watch
    queue bulk start priority key_prefix=order-10 --priority high
    queue bulk start reschedule limit=host:api.example.org:443 --run-after "2026-11-28 06:00"
    queue bulk start skip --everything --confirm 9000 --reason "wrong database"
    cancel, skip and retry_from_start need a reason, and the count that a preview shows
    """
    action = bulk.begin(_request(options), by_command(options["reason"]), options["confirm"])
    if options["watch"]:
        return _watch(action.pk, POLL_SECONDS, options, out)
    _print(action, options, out, f"started: {_summary_line(action)}")
    return None


def _request(options: dict[str, Any]) -> BulkRequest:
    filters = dict(read_filter(text) for text in options["filters"])
    if bool(filters) == bool(options["everything"]):
        raise BadInput("give a filter such as state=failed, or --everything for every execution")
    arguments = given(options, ARGUMENTS)
    return BulkRequest(options["bulk_action"], filters, arguments, options["per_minute"])


def read_filter(text: str) -> tuple[str, Any]:
    """The name and the value of a filter as it is typed, `state=failed`. Raises `BadInput`."""
    name, equals, value = text.partition("=")
    if not equals:
        raise BadInput(f"{text!r} is not a filter; format: state=failed")
    if name in FILTERS and FILTERS[name].parse is parse_time:
        return name, past(value).isoformat()
    if name != "ids":
        return name, value
    try:
        return name, [int(number) for number in value.split(",")]
    except ValueError:
        raise BadInput(f"ids {value[:60]!r} are not comma-separated numbers") from None


@subcommand(
    "bulk stop", option("id", type=row_id, help="its number in `queue bulk list`"), REASON, JSON_OBJECT
)
def stop(options: Options, out: Any) -> None:
    """stop it; what it has changed stays changed

    queue bulk stop 7 --reason "wrong group"                      takes effect within one chunk
    """
    action = bulk.stop(options["id"], by_command(options["reason"]))
    _print(action, options, out, _summary_line(action))


@subcommand(
    "bulk resume", option("id", type=row_id, help="its number in `queue bulk list`"), REASON, JSON_OBJECT
)
def resume(options: Options, out: Any) -> None:
    """start a new action for the rest of a stopped one

    queue bulk resume 7                                           a new action for the rest
    """
    action = bulk.resume(options["id"], by_command(options["reason"]))
    _print(action, options, out, f"started: {_summary_line(action)}")


@subcommand(
    "bulk show", option("id", type=row_id, help="its number"), JSON_OBJECT, WATCH, interval(POLL_SECONDS)
)
def show(options: Options, out: Any) -> int | None:
    """its progress and result

    queue bulk show 7 --watch
    """
    if options["watch"]:
        return _watch(options["id"], options["interval"], options, out)
    values = progress.serialize(bulk.get_or_error(options["id"]), database_now())
    if options["json"]:
        out.write(as_json(values))
    else:
        show_fields(out, values)
    return None


def _watch(pk: int, every: float, options: Options, out: Any) -> int:
    """Wait until it has ended, with a progress bar on a terminal; polls each `every` seconds."""
    action = bulk.get_or_error(pk)
    with bar() if shown() else nullcontext() as drawn:
        task = drawn.add_task(str(action), total=action.matched) if drawn else None
        while action.state == ActionState.RUNNING:
            if drawn and task is not None:
                drawn.update(task, completed=action.passed)
            time.sleep(every)
            action = bulk.get_or_error(pk)
    _print(action, options, out, _summary_line(action))
    return _exit_code(action)


def _summary_line(action: BulkAction) -> str:
    """`retry #7 running: 40% of 1,000; 400 changed, …`."""
    now = database_now()
    current = progress.progress(action, now)
    eta = f"; ETA {about(current.ends_at, 'end', now)}" if current.ends_at else ""
    who = f" by {action.stopped_by}" if action.stopped_by else ""
    by_itself = action.state == ActionState.STOPPED and not action.stopped_by
    why = f"; {action.problem.splitlines()[-1]}" if by_itself and action.problem else ""
    return (
        f"{action} {action.state}{who}: {current.percent}% of {action.matched:,}; "
        f"{progress.result_in_words(action)}{eta}{why}"
    )


def _print(action: BulkAction, options: Options, out: Any, line: str) -> None:
    out.write(as_json(progress.serialize(action, database_now())) if options["json"] else line)


def _exit_code(action: BulkAction) -> int:
    return 0 if action.state == ActionState.DONE and not action.failed else 2


@subcommand("bulk list", JSON_LINES)
def show_list(options: Options, out: Any) -> None:
    """the newest actions

    queue bulk list --json
    """
    now, actions = database_now(), BulkAction.objects.order_by("-pk")[:LISTED]
    if options["json"]:
        write_json(out, (progress.serialize(action, now) for action in actions))
        return
    rows = (
        [a.pk, progress.what_in_words(a), progress.filter_in_words(a), a.state,
         f"{progress.progress(a, now).percent}%", progress.result_in_words(a), a.actor, a.reason]
        for a in actions
    )  # fmt: skip
    columns = ["#", "action", "filter", "state", "", "result", "actor", "reason"]
    output.show(out, table("Bulk actions", columns, rows))


@subcommand("bulk run", JSON_LINES)
def run(options: Options, out: Any) -> int:
    """run all actions in this process until they have ended

    queue bulk run                                                run them here, without a worker
    """
    ids = list(BulkAction.objects.running().values_list("pk", flat=True))
    while BulkAction.objects.running().exists():
        if not runner.run():
            time.sleep(POLL_SECONDS)
    ended = [bulk.get_or_error(pk) for pk in ids]
    for action in ended:
        _print(action, options, out, _summary_line(action))
    return max(map(_exit_code, ended), default=0)
