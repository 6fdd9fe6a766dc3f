from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import Group

from queuemgr.base.safe_text import as_json
from queuemgr.cli import watch
from queuemgr.cli.arguments import add_interval
from queuemgr.cli.limits import clock, limits_table
from queuemgr.cli.output import show, table
from queuemgr.cli.replay import span
from queuemgr.reporting import stats

NAME = "stats"
HELP = "counts, queues, limits, budget, workers, forecast, and what work waits on"
EXAMPLES = """
  queue stats
  queue stats --json
  queue stats --watch
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object, stable names")
    parser.add_argument("--watch", action="store_true", help="update until Ctrl-C")
    add_interval(parser, watch.TERMINAL_SECONDS)


def run(options: dict[str, Any], out: Any) -> int:
    if options["watch"] and not options["json"]:
        return watch.run({"once": False, "interval": options["interval"]}, out)
    if not options["json"]:
        show(out, _overview(stats.stats()))
        return 0
    while True:
        out.write(as_json(stats.stats()))
        out.flush()
        if not options["watch"]:
            return 0
        time.sleep(options["interval"])


def _overview(found: Mapping[str, Any]) -> Group:
    queue_columns = ["queue", "waiting", "leased", "running", "oldest wait"]
    waiting = ([w["waiting"], w["reason"], clock(w["until"])] for w in found["waiting_on"])
    failures = ([f["error_kind"], f["count"]] for f in found["failures"])
    forecast = _forecast(found["forecast"])
    return Group(
        table("Executions", ["status", "count"], sorted(found["statuses"].items())),
        table("\nQueues", queue_columns, _queues(found["queues"])),
        limits_table("\nLimits", found["limits"]),
        f"\n{watch.budget_line(found['budget'])}",
        watch.workers_table(found["workers"]),
        table("\nWaiting on", ["waiting", "reason", "until"], waiting),
        table("\nFailures", ["kind", "count"], failures),
        watch.batches_table(found["batches"]),
        table("\nForecast at the rate of the last hour", ["", "left", "per hour", "ETA", ""], forecast),
    )  # fmt: skip


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
