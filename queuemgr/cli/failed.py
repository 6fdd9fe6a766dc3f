"""`queue failed`: failed work as a file, put back from one, and handed over to another flow."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

from queuemgr.base.errors import BadInput, NeverFits, UnknownFlow
from queuemgr.base.safe_text import as_json, safe_text
from queuemgr.cli.arguments import JSON_LINES, JSON_OBJECT, ONLY_FLOW, REASON, natural, positive
from queuemgr.cli.exit_codes import FINE, SOME_FAILED
from queuemgr.cli.export import replacing
from queuemgr.cli.import_file import numbered_lines, open_lines
from queuemgr.cli.output import by_command, listing
from queuemgr.cli.subcommands import Options, group, option, subcommand
from queuemgr.flows.flow import HAND_OVER
from queuemgr.operations import dead_letters, failure_retention
from queuemgr.operations.dead_letters import MOST, Line
from queuemgr.reporting.failure_retention import kept

KIND = option("--kind", "--error-kind", help="only this error kind")
MOST_LINES = MOST
"""Of a file that is imported, blank ones left out."""

LIMIT = option("--limit", type=positive, help=f"only so many (default {MOST:,}, and what is left is named)")

group(
    "failed",
    "dead letters: write failed work to a file, put it back from one, hand it over to another flow",
    """\
exit codes: 0 all of it, 2 some was invalid (import), refused (hand-over) or left for the next time, named; 3
refused (with the reason), 5 no database, 64 wrong usage, 130 interrupted; all in docs/operate.md""",
)


@subcommand(
    "failed export",
    option("file", help="JSON Lines to this file; -: standard output"),
    ONLY_FLOW,
    KIND,
    LIMIT,
)
def export(options: Options, out: Any) -> int:
    """failed executions as JSON Lines, with their payloads, in which secrets are masked

    queue failed export failed.jsonl --flow shop.send --kind bad_payload
    """
    rows = dead_letters.failures(options["flow"], options["kind"])
    file, count = options["file"], 0
    with replacing(Path(file)) if file != "-" else nullcontext(out.write) as write:
        for facts in dead_letters.exported(rows, options["limit"] or MOST):
            write(f"{as_json(facts)}\n")
            count += 1
    if file != "-":
        out.write(f"{count:,} exported")
    if options["limit"] is None and count == MOST and rows.count() > MOST:
        sys.stderr.write(f"{_more()}: export those of one flow or kind, or say --limit\n")
        return SOME_FAILED
    return FINE


@subcommand(
    "failed import", option("file", help="a file of lines, or - for standard input"), REASON, JSON_LINES
)
def import_failed(options: Options, out: Any) -> int:
    """retry the failures in a file with the payloads that it has; enqueue those not known here

    queue failed import failed.jsonl --reason "hosts corrected"
    what was left masked keeps its value; a line does nothing twice, and nothing to work that has moved on;
    of a longer file the first 100,000 lines are taken, which it says
    """
    by, counts = by_command(options["reason"]), Counter[str]()
    bad: list[tuple[int, str]] = []
    first_left = None
    try:
        with open_lines(options["file"]) as lines:
            numbered = numbered_lines(lines)
            for number, text in islice(numbered, MOST_LINES):
                try:
                    counts[dead_letters.take(Line.parse(text), by)] += 1
                except (BadInput, UnknownFlow, NeverFits) as error:
                    bad.append((number, str(error)))
            first_left = next((number for number, _ in numbered), None)
    finally:  # a full queue, too, or Ctrl-C: what is done stays done
        numbers = {what: counts[what] for what in ("retried", "new", "unchanged")}
        said = (f"{number:,} {what}" for what, number in numbers.items())
        out.say(f"{', '.join(said)}, {len(bad):,} bad", **numbers, bad=len(bad))
        for number, problem in bad:
            out.say(f"line {number}: {safe_text(problem)}", line=number, problem=problem)
    if first_left:
        out.say(
            f"line {first_left} and what follows was not read: {MOST_LINES:,} lines are taken at a time. "
            f"Give it the rest: tail -n +{first_left} FILE | queue failed import -",
            first_left=first_left,
        )
    return SOME_FAILED if bad or first_left else FINE


@subcommand(
    "failed keep",
    option("flow", nargs="?", default="", help="the flow; without one: all of them are shown"),
    option("--days", type=natural, help="keep its failures for so many days; 0: for ever"),
    option("--as-stated", action="store_true", help="as code and settings say, again"),
    REASON,
    JSON_LINES,
)
def keep(options: Options, out: Any) -> None:
    """for how many days the failures of each flow are kept, and who says so; or state it for one

    queue failed keep
    queue failed keep shop.send --days 90 --reason "until the audit"
    queue failed keep shop.send --as-stated
    """
    flow, days = options["flow"], options["days"]
    if bool(flow) != (days is not None or options["as_stated"]) or (
        days is not None and options["as_stated"]
    ):
        raise BadInput("give a flow with --days or --as-stated, or none of them to see all")
    if flow:
        failure_retention.keep(flow, days, by_command(options["reason"]))
    rows = [each for each in kept() if flow in ("", each.flow)]
    facts = ({"flow": k.flow, "keep_failed_days": k.days, "stated_by": k.stated_by} for k in rows)
    cells = ((k.flow, k.text, k.stated_by) for k in rows)
    listing(out, facts if options["json"] else None, ("flow", "failures are kept", "as said by"), cells)


@subcommand(
    "failed hand-over",
    option("--to", default="", metavar="FLOW", help="the flow that gets it"),
    option("--to-queue", default="", metavar="QUEUE", help="or a Celery queue of others, as plain messages"),
    option("--task", default="", help="with --to-queue: the task that is to run (default: the flow's name)"),
    ONLY_FLOW, KIND, LIMIT, REASON, JSON_OBJECT,
)  # fmt: skip
def hand_over(options: Options, out: Any) -> int:
    """enqueue failed work in another flow, or send it to another Celery queue, and skip it where it failed

    queue failed hand-over --flow shop.send --kind rejected --to shop.by_post --reason "no mail for them"
    queue failed hand-over --flow shop.send --to-queue legacy --task old.send --reason "they know how"
    a flow gets the same keys and payloads; a queue gets the payloads as keyword arguments, once each
    """
    to, queue = options["to"], options["to_queue"]
    if bool(to) == bool(queue) or (options["task"] and not queue):
        raise BadInput("give --to FLOW, or --to-queue QUEUE and perhaps --task")
    rows, by = dead_letters.failures(options["flow"], options["kind"]), by_command(options["reason"])
    most = options["limit"] or MOST
    if queue:
        done = dead_letters.hand_over_to_queue(rows, queue, options["task"], by, most)
    else:
        done = dead_letters.hand_over(rows, to, by, most)
    out.say(
        f"{done.new:,} handed over, {done.already:,} already there, {done.refused:,} refused",
        new=done.new, already=done.already, refused=done.refused, why=done.why,
    )  # fmt: skip
    if done.refused and not options["json"]:
        out.write(f"the first: {safe_text(done.why)}")
    looked_at = done.new + done.already + done.refused
    others = rows.exclude(flow=to or HAND_OVER)
    if is_cut := options["limit"] is None and looked_at == MOST and others.count() > done.refused:
        said = f"{_more()}: do it again"
        print(said, file=sys.stderr) if options["json"] else out.write(said)
    return SOME_FAILED if done.refused or is_cut else FINE


def _more() -> str:
    return f"there are more than {MOST:,} failures"
