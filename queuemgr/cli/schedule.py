"""`queue schedule`: schedules, when they are due and what became of their runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.base.safe_text import as_json
from queuemgr.base.time_text import duration_text
from queuemgr.cli.arguments import JSON_LINES, JSON_OBJECT, REASON, natural, positive
from queuemgr.cli.output import by_command, clock, listing, show, show_fields, table
from queuemgr.cli.pausing import MINUTES, end_of_pause
from queuemgr.cli.subcommands import Options, given, group, option, subcommand
from queuemgr.flows.flow import PRIORITIES
from queuemgr.flows.payload_validation import parse
from queuemgr.models import Misfire, Overlap
from queuemgr.operations import schedules
from queuemgr.reporting import schedules as report

NAME = option("name", help="the schedule's name")
FIELDS = (
    option("--payload", help="the payload, a JSON object"),
    option("--priority", choices=PRIORITIES, help="priority of what it enqueues"),
    option("--misfire", choices=Misfire.values, help="which missed due times are run"),
    option("--misfire-limit", type=positive, help="with `run all`: at most so many, the latest"),
    option("--overlap", choices=Overlap.values, help="what becomes of a run that meets one before it"),
    option("--jitter", type=natural, help="a run starts up to so many seconds after its due time"),
)
SET = ("priority", "misfire", "misfire_limit", "overlap", "jitter")

group("schedule", "schedules: what is enqueued by the clock, when it is due, and what became of it")


@subcommand("schedule list", JSON_LINES)
def list_all(options: Options, out: Any) -> None:
    """every schedule: timing, next due time, last run, and how late it is

    queue schedule list
    queue schedule list --json | jq -r 'select(.late_seconds > 60) | .schedule'
    """
    rows = report.listed()
    columns = ["schedule", "flow", "timing", "state", "next", "last", "became"]
    listing(out, rows if options["json"] else None, columns, map(_row, rows))


def _row(row: Mapping[str, Any]) -> list[Any]:
    last = row["last"] or {}
    late = f", {duration_text(row['late_seconds'])} late" if row["late_seconds"] else ""
    return [
        row["schedule"], row["flow"], row["timing"], row["paused"] or row["state"],
        f"{clock(row['next_due_at'])}{late}", clock(last.get("due_at")), report.became(last) if last else "",
    ]  # fmt: skip


@subcommand("schedule show", NAME, JSON_OBJECT)
def show_one(options: Options, out: Any) -> None:
    """one schedule: its fields, its next ten due times, and its last runs with outcome and duration

    queue schedule show shop.tasks.nightly_import
    queue schedule show shop.tasks.nightly_import --json | jq '.next_runs[0]'
    """
    shown = report.shown(schedules.find(options["name"]))
    if options["json"]:
        out.write(as_json(shown))
        return
    following, runs = shown.pop("next_runs"), shown.pop("runs")
    fields = {**shown, "payload": json.dumps(shown["payload"]), "stated_by_code": None}
    show_fields(out, fields | {"late_seconds": shown["late_seconds"] or None})
    show(out, table("\nNext runs", [""], ([clock(at)] for at in following)))
    columns = ["due", "until", "became", "took", "key", "by"]
    show(out, table("\nLast runs", columns, map(_run, runs)))


def _run(run: Mapping[str, Any]) -> list[Any]:
    took = "" if run["seconds"] is None else duration_text(run["seconds"])
    became, by = report.became(run), run["requested_by"]
    return [clock(run["due_at"]), clock(run["until"]), became, took, run["key"], by]


@subcommand("schedule pause", NAME, MINUTES, REASON, JSON_OBJECT)
def pause(options: Options, out: Any) -> None:
    """skip its runs, each with the reason, until it is resumed; what it enqueued continues

    queue schedule pause shop.tasks.nightly_import --reason "the source is down"
    queue schedule pause shop.tasks.nightly_import --minutes 120
    """
    schedules.pause(options["name"], by_command(options["reason"]), end_of_pause(options))
    out.say(f"schedule {options['name']} paused", schedule=options["name"], paused=True)


@subcommand("schedule resume", NAME, REASON, JSON_OBJECT)
def resume(options: Options, out: Any) -> None:
    """run it again from its next due time on

    queue schedule resume shop.tasks.nightly_import
    """
    schedules.resume(options["name"], by_command(options["reason"]))
    out.say(f"schedule {options['name']} resumed", schedule=options["name"], paused=False)


@subcommand("schedule run", NAME, REASON, JSON_OBJECT)
def run(options: Options, out: Any) -> None:
    """enqueue it now, whether it is due, paused or running or not

    queue schedule run shop.tasks.nightly_import --reason "the file came late"
    """
    key = schedules.run_now(options["name"], by_command(options["reason"]))
    if options["json"]:
        out.write(as_json({"schedule": options["name"], "key": key}))
    else:
        out.write(f"schedule {options['name']} enqueued as {key}")


@subcommand(
    "schedule create",
    NAME,
    option("timing", help="as 'cron 30 3 * * * in Europe/Berlin', 'every 5m from start'"),
    option("--flow", required=True, help="the flow, or the task, that it enqueues"),
    *FIELDS,
    REASON,
    JSON_OBJECT,
)
def create(options: Options, out: Any) -> None:
    """make a schedule, in force from now on

    queue schedule create nightly "cron 30 3 * * * in Europe/Berlin" --flow shop.tasks.import_all
    queue schedule create poll "every 5m from end" --flow orders --payload '{"region": "eu"}'
    queue schedule create launch "once 2026-12-01T03:00:00+00:00" --flow orders
    """
    row = schedules.create(
        options["name"], options["flow"], options["timing"], by_command(options["reason"]),
        payload=_payload(options), **given(options, SET),
    )  # fmt: skip
    said = f"schedule {row.name} created: {row.timing}, next {clock(row.next_due_at) or 'never'}"
    out.say(said, schedule=row.name, timing=row.timing, next_due_at=row.next_due_at)


@subcommand("schedule edit", NAME, option("--timing", help="a new timing"), *FIELDS, REASON, JSON_OBJECT)
def edit(options: Options, out: Any) -> None:
    """set fields of a schedule; they stay until the code states other values of them

    queue schedule edit shop.tasks.nightly_import --timing "cron 0 5 * * *" --reason "after the backup"
    queue schedule edit nightly --overlap "queue one" --jitter 300
    """
    values = given(options, SET) | ({"timing": options["timing"]} if options["timing"] else {})
    row = schedules.edit(options["name"], by_command(options["reason"]), payload=_payload(options), **values)
    said = f"schedule {row.name}: {row.timing}, next {clock(row.next_due_at) or 'never'}"
    out.say(said, schedule=row.name, timing=row.timing, next_due_at=row.next_due_at)


@subcommand("schedule delete", NAME, REASON, JSON_OBJECT)
def delete(options: Options, out: Any) -> None:
    """delete a schedule that a person made, or that no code states any more, with the record of its runs

    queue schedule delete nightly --reason "moved to another system"
    """
    schedules.delete(options["name"], by_command(options["reason"]))
    out.say(f"schedule {options['name']} deleted", deleted=options["name"])


def _payload(options: Options) -> dict[str, Any] | None:
    """What `--payload` gives. Raises `BadInput`."""
    if options["payload"] is None:
        return None
    try:
        return parse(options["payload"])
    except BadInput as error:
        raise BadInput(f"--payload: {error}") from None
