from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import Group

from queuemgr.base.safe_text import as_json
from queuemgr.cli import watch
from queuemgr.cli.config_options import above_zero
from queuemgr.cli.limits import clock, limits_table
from queuemgr.cli.output import show, table
from queuemgr.cli.replay import span
from queuemgr.reporting import stats

NAME = "stats"
HELP = "how the work stands: counts, queues, limits, budget, workers, and what work waits on"
EXAMPLES = """
  queue stats
  queue stats --json
  queue stats --watch
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object, stable names")
    parser.add_argument("--watch", action="store_true", help="again and again, until Ctrl-C")
    parser.add_argument(
        "--every", type=above_zero, default=2, help="seconds between looks (default 2)"
    )


def run(options: dict[str, Any], out: Any) -> int:
    if options["watch"] and not options["json"]:
        return watch.run({"once": False, "interval": options["every"]}, out)
    if not options["json"]:
        show(out, _picture())
        return 0
    while True:
        out.write(as_json(stats.stats()))
        out.flush()
        if not options["watch"]:
            return 0
        time.sleep(options["every"])


def _picture() -> Group:
    seen = stats.stats()
    budget = seen["budget"]
    return Group(
        table("Executions", ["status", "count"], sorted(seen["statuses"].items())),
        table(
            "\nQueues",
            ["queue", "waiting", "leased", "running", "oldest wait"],
            _queues(seen["queues"]),
        ),
        limits_table("\nLimits", seen["limits"]),
        f"\nBudget {budget['day']}: {budget['spent']} spent and {budget['reserved']} reserved "
        f"of {budget['budget'] if budget['budget'] is not None else 'no limit'} requests",
        table(
            "\nWorkers",
            ["worker", "busy", "slots", ""],
            (
                [w["worker"], w["busy"], w["slots"], "draining" if w["draining"] else ""]
                for w in seen["workers"]
            ),
        ),
        table(
            "\nWaiting on",
            ["waiting", "because", "until"],
            ([w["waiting"], w["reason"], clock(w["until"])] for w in seen["waiting_on"]),
        ),
        table(
            "\nFailures",
            ["kind", "count"],
            ([f["error_kind"], f["count"]] for f in seen["failures"]),
        ),
        table(
            "\nBatches under way",
            ["batch", "ended", "of", "failed", "likely done"],
            watch.batch_rows(seen["batches"]),
        ),
        table(
            "\nForecast at the speed of the last hour",
            ["what", "left", "an hour", "at", ""],
            _forecast(seen["forecast"]),
        ),
    )


def _queues(queues: Iterable[Mapping[str, Any]]) -> Iterator[list[Any]]:
    for q in queues:
        waits = q["oldest_wait_seconds"]
        oldest = "" if waits is None else span(waits)
        yield [q["queue"], q["waiting"], q["leased"], q["running"], oldest]


def _forecast(found: Mapping[str, Any]) -> Iterator[list[Any]]:
    for b in found["budgets"]:
        what = f"{b['limit']} budget spent"
        yield [what, b["left"], b["per_hour"], clock(b["ends_at"]), b["because"]]
    for p in found["phases"]:
        what = f"{p['phase']} done"
        yield [what, p["unfinished"], p["per_hour"], clock(p["done_at"]), p["because"]]
