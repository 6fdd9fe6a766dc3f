"""`queue stats`: the fleet as a whole, once; it draws nothing, so it imports nothing that draws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from queuemgr.base.safe_text import as_json
from queuemgr.cli.arguments import JSON_OBJECT, TERMINAL_SECONDS, interval
from queuemgr.cli.controls import limits_table
from queuemgr.cli.fleet_tables import batches_table, budget_line, oldest_wait, workers_table
from queuemgr.cli.output import Table, clock, rounds, show, table
from queuemgr.cli.subcommands import Options, option, subcommand
from queuemgr.reporting import stats
from queuemgr.reporting.estimate_ranges import about


@subcommand(
    "stats",
    JSON_OBJECT,
    option("--watch", action="store_true", help="update until Ctrl-C"),
    interval(TERMINAL_SECONDS),
)
def show_stats(options: Options, out: Any) -> None:
    """counts, queues, limits, budget, workers, forecast, and what work waits on

    queue stats
    queue stats --json
    queue stats --watch
    """
    if options["watch"] and not options["json"]:
        from queuemgr.cli.watch import watch

        watch({"once": False, "interval": options["interval"]}, out)
        return
    if not options["json"]:
        show(out, *_all_stats(stats.stats()))
        return
    for _ in rounds(options["interval"]):
        out.write(as_json(stats.stats()))
        out.flush()
        if not options["watch"]:
            return


def _all_stats(current: Mapping[str, Any]) -> list[Table | str]:
    queue_columns = ["queue", "waiting", "leased", "running", "oldest wait"]
    queues = (
        [q["queue"], q["waiting"], q["leased"], q["running"], oldest_wait(q)] for q in current["queues"]
    )
    waiting = ([w["waiting"], w["reason"], clock(w["until"])] for w in current["waiting_on"])
    failures = ([f["error_kind"], f["count"]] for f in current["failures"])
    forecast = _forecast(current["forecast"], current["at"])
    return [
        table("Executions", ["status", "count"], sorted(current["statuses"].items())),
        table("\nQueues", queue_columns, queues),
        limits_table("\nLimits", current["limits"]),
        f"\n{budget_line(current['budget'])}",
        workers_table(current["workers"]),
        table("\nWaiting on", ["waiting", "reason", "until"], waiting),
        table("\nFailures", ["kind", "count"], failures),
        batches_table(current["batches"], current["at"]),
        table("\nForecast at the rate of the last hour", ["", "left", "per hour", "ETA", ""], forecast),
    ]


def _forecast(forecast: Mapping[str, Any], now: datetime) -> Iterator[list[Any]]:
    for b in forecast["budgets"]:
        what = f"{b['limit']} budget spent"
        yield [what, b["left"], b["per_hour"], about(b["ends_at"], "budget", now), b["because"]]
    for p in forecast["phases"]:
        what = f"{p['phase']} done"
        yield [what, p["unfinished"], p["per_hour"], about(p["done_at"], "end", now), p["because"]]
