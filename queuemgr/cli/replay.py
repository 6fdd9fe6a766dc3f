from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from queuemgr.base.safe_text import as_json
from queuemgr.cli.config_options import positive
from queuemgr.cli.output import show, table
from queuemgr.cli.progress_bar import busy
from queuemgr.reporting.replay import what_if
from queuemgr.reporting.replay.summary import Tally, Waits

NAME = "replay"
HELP = "what would have happened: recorded work put through the decision again, under other limits"
EXAMPLES = """
  queue replay --since "2026-11-28 06:00"
  queue replay --since "2026-11-28 06:00" --until "2026-11-28 09:00" --set fleet.daily_budget=500
  queue replay --since 2026-11-28 --set "host:*.rate=1/3s" --set phase:expensive.max_running=60 --json
  not simulated: closings by services, pauses, which worker serves which queue, and what was spent of
  the first day before the window; attempts run as long as they ran and cost what they spent
  exit codes: 0 replayed, 3 nothing recorded then, or a change that cannot be
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("--since", type=moment, required=True, help="UTC, as 2026-11-28 06:00")
    parser.add_argument("--until", type=moment, help="UTC (default now)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="LIMIT.FIGURE=VALUE", dest="changes",
        help="a limit's figure as it would be, again and again: fleet.max_running=300",
    )  # fmt: skip
    parser.add_argument(
        "--slots",
        type=positive,
        help="slots (default the most that ran at once, or those of live workers if more)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object, stable names")


def moment(text: str) -> datetime:
    """An argparse type: an ISO 8601 date or time, in UTC unless it says otherwise."""
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time; write it like 2026-11-28 06:00"
        ) from None
    return given if given.tzinfo else given.replace(tzinfo=UTC)


def run(options: dict[str, Any], out: Any) -> int:
    with busy("replaying"):
        found = what_if.compare(
            options["since"], options["until"], options["changes"], options["slots"]
        )
    if options["json"]:
        out.write(as_json(asdict(found)))
        return 0
    runs = {"recorded": found.recorded, "replayed as limits are": found.as_is}
    if found.changed:
        runs["replayed with the changes"] = found.changed
    rows = {name: list(_lines(tally)) for name, tally in runs.items()}
    labels = list(dict.fromkeys(label for lines in rows.values() for label, _ in lines))
    cells = {name: dict(lines) for name, lines in rows.items()}
    body = ([label, *(cells[name].get(label, "") for name in runs)] for label in labels)
    title = f"{found.recorded.attempts} attempts on {found.slots} slots"
    show(out, table(title, ["", *runs], body))
    for name, tally in runs.items():
        for reason, count in tally.never.items():
            out.write(f"{name}: {count} never started: {reason}")
    return 0


def _lines(tally: Tally) -> Iterator[tuple[str, str]]:
    """What is shown of a run, with its label."""
    yield "attempts", str(tally.attempts)
    yield "work done per hour", f"{tally.per_hour:.0f}"
    yield "makespan", span(tally.makespan)
    for name, waits in tally.waits.items():
        yield f"waits, {name}: median / p95 / longest", _waits(waits)
    for day, requests in tally.requests.items():
        yield f"requests on {day}", str(requests)
    stopped = tally.stopped_by_budget
    yield "starts stopped by a budget", "not recorded" if stopped is None else str(stopped)


def _waits(waits: Waits) -> str:
    return " / ".join(span(seconds) for seconds in (waits.median, waits.p95, waits.longest))


def span(seconds: float) -> str:
    """Seconds as people say them: `8.2 s`, `14 m`, `3.5 h`."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} m" if seconds < 7200 else f"{seconds / 3600:.1f} h"
