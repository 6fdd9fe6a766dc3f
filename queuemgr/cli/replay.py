"""`queue replay`: recorded work under other limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from queuemgr.base.meters import meter_or_plain
from queuemgr.base.safe_text import as_json
from queuemgr.base.time_text import duration_text
from queuemgr.cli.arguments import JSON_OBJECT, TIME_FORMAT, past, positive
from queuemgr.cli.output import show, table
from queuemgr.cli.progress_bar import busy
from queuemgr.cli.subcommands import Options, option, subcommand
from queuemgr.reporting.replay import what_if
from queuemgr.reporting.replay.summary import Tally, Waits


@subcommand(
    "replay",
    option("--since", type=past, required=True, help=f"start ({TIME_FORMAT})"),
    option("--until", type=past, help="end (default now)"),
    option(
        "--set", action="append", default=[], metavar="LIMIT.FIELD=VALUE", dest="changes",
        help="a changed field or allowance of a limit, such as fleet.max_running=300; may be repeated",
    ),
    option(
        "--slots", type=positive,
        help="slots (default: the maximum that ran at once, or those of live workers if more)",
    ),
    JSON_OBJECT,
)  # fmt: skip
def replay(options: Options, out: Any) -> None:
    """simulate recorded work under other limits: waits, throughput and usage, before and after

    queue replay --since "2026-11-28 06:00"
    queue replay --since "2026-11-28 06:00" --until "2026-11-28 09:00" --set fleet.daily_budget=500
    queue replay --since 2026-11-28 --set "host:*.rate=1/3s" --set phase:{phase}.max_running=60 --json
    queue replay --since 2026-11-28 --set openai:gpt.tokens/minute=60,000 --set tenant:acme.usd/day=none
    queue replay --since 2026-11-28 --set "tenant:*.allowances=5 usd/day; 100 usd/month"
    not simulated: circuit breakers, pauses, which worker serves which queue, and what was spent on the
    first day before the window; attempts take as long and cost as much as recorded
    exit codes: 0 replayed, 3 nothing was recorded in the window, or a change is invalid
    """
    with busy("replaying"):
        comparison = what_if.compare(options["since"], options["until"], options["changes"], options["slots"])
    if options["json"]:
        out.write(as_json(asdict(comparison)))
        return
    runs = {"recorded": comparison.recorded, "replayed with current limits": comparison.as_is}
    if comparison.changed:
        runs["replayed with the changes"] = comparison.changed
    cells = {name: dict(_lines(tally)) for name, tally in runs.items()}
    labels = list(dict.fromkeys(label for lines in cells.values() for label in lines))
    body = ([label, *(cells[name].get(label, "") for name in runs)] for label in labels)
    title = f"{comparison.recorded.attempts} attempts on {comparison.slots} slots"
    show(out, table(title, ["", *runs], body))
    for name, tally in runs.items():
        for reason, count in tally.never.items():
            out.write(f"{name}: {count} never started: {reason}")


def _lines(tally: Tally) -> Iterator[tuple[str, str]]:
    """Labels and values of a run."""
    yield "attempts", str(tally.attempts)
    yield "attempts done per hour", f"{tally.per_hour:.0f}"
    yield "makespan", duration_text(tally.makespan)
    for name, waits in tally.waits.items():
        yield f"waits, {name}: p50 / p95 / max", _waits(waits)
    for day, requests in tally.requests.items():
        yield f"requests on {day}", str(requests)
    for day, used in tally.used.items():
        for meter, amount in used.items():
            yield f"{meter} on {day}", meter_or_plain(meter).text(amount)
    stopped = tally.stopped_by_budget
    yield "starts stopped by a budget", "not recorded" if stopped is None else str(stopped)


def _waits(waits: Waits) -> str:
    return " / ".join(duration_text(seconds) for seconds in (waits.median, waits.p95, waits.longest))
