from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from django.db import Error as DatabaseError
from django.db import connection
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from queuemgr.base.scheduler_lock import database_now
from queuemgr.cli.arguments import above_zero
from queuemgr.cli.limits import clock, limits_table
from queuemgr.cli.output import console, show, table
from queuemgr.cli.progress_bar import can_draw
from queuemgr.cli.replay import span
from queuemgr.models import Attempt, Outcome
from queuemgr.reporting import stats
from queuemgr.reporting.queue_depths import queue_counts

NAME = "watch"
HELP = "a live view of the fleet: queues, limits, budget, workers, recent failures"
EXAMPLES = """
  queue watch
  queue watch --interval 5
  queue watch --once                        once, as plain text
  queue watch --interval 60 | tee log       without a terminal: a line per change
  exit codes: 0 also when interrupted by Ctrl-C, 5 no database (with --once; otherwise it reports that
  and retries), 64 wrong usage; all in docs/operate.md
"""

PAUSE_FACTOR = 5
"""The pause between updates is at least so many times as long as an update took."""

TERMINAL_SECONDS, PIPE_SECONDS = 2.0, 10.0
"""Default intervals, on a terminal and elsewhere."""

LIMITS, FAILURES, NEWEST = 12, 5, 2_000
"""Limits and failures shown; newest attempts that are searched for failures."""


def add_arguments(parser: Any) -> None:
    parser.add_argument(
        "--interval", type=above_zero, metavar="SECONDS",
        help=f"seconds between updates (default {TERMINAL_SECONDS:g}, or {PIPE_SECONDS:g} without a "
        "terminal)",
    )  # fmt: skip
    parser.add_argument("--once", action="store_true", help="print once and exit")


def run(options: dict[str, Any], out: Any) -> int:
    if options["once"]:
        show(out, overview())
        return 0
    try:
        if can_draw(out):
            _live(out, options["interval"] or TERMINAL_SECONDS)
        else:
            _lines(out, options["interval"] or PIPE_SECONDS)
    except KeyboardInterrupt:
        return 0
    return 0


def _live(out: Any, interval: float) -> None:
    with Live(_read(overview), console=console(out), auto_refresh=False) as live:
        while True:
            began = time.monotonic()
            live.update(_read(overview), refresh=True)
            _sleep(began, interval)


def _lines(out: Any, interval: float) -> None:
    """A line per change, so that a log is not flooded."""
    written = ""
    while True:
        began = time.monotonic()
        line = str(_read(summary_line))
        if line != written:
            written = line
            out.write(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S} {line}")
            out.flush()
        _sleep(began, interval)


def _sleep(began: float, interval: float) -> None:
    time.sleep(max(interval, PAUSE_FACTOR * (time.monotonic() - began)))


def _read(read: Callable[[], Any]) -> Any:
    """What `read` returns, or a message if the database does not answer."""
    try:
        return read()
    except DatabaseError as error:
        connection.close()
        reason = str(error).strip().partition("\n")[0]
        return Text(f"the database does not answer ({reason}): retrying")


def summary_line() -> str:
    """The counts of executions by status, in one line."""
    found = stats.counts().by_status
    return "  ".join(f"{status} {count}" for status, count in sorted(found.items())) or "nothing"


def overview() -> Group:
    now, found = database_now(), stats.stats()
    return Group(
        Text(f"{now:%Y-%m-%d %H:%M:%S} UTC  {summary_line()}"),
        table("\nQueues", ["queue", "waiting", "due", "running", "oldest wait"], _queues(now)),
        limits_table("\nLimits", _busiest(found["limits"])),
        Text(f"\n{budget_line(found['budget'])}"),
        workers_table(found["workers"]),
        batches_table(found["batches"]),
        table("\nRecent failures", ["when", "key", "step", "kind", "error"], _failures()),
    )


def budget_line(budget: Mapping[str, Any]) -> str:
    total = budget["budget"] if budget["budget"] is not None else "no limit"
    spent, reserved = budget["spent"], budget["reserved"]
    return f"Budget {budget['day']}: {spent} spent and {reserved} reserved of {total} requests"


def workers_table(workers: Iterable[Mapping[str, Any]]) -> Table:
    rows = ([w["worker"], w["busy"], w["slots"], "draining" * w["draining"]] for w in workers)
    return table("\nWorkers", ["worker", "busy", "slots", ""], rows)


def batches_table(batches: Iterable[Mapping[str, Any]]) -> Table:
    rows = (
        [b["batch"], b["total"] - b["waiting"] - b["running"], b["total"], b["failed"], clock(b["eta"])]
        for b in batches
    )  # fmt: skip
    return table("\nOpen batches", ["batch", "ended", "of", "failed", "ETA"], rows)


def _queues(now: datetime) -> Iterator[list[Any]]:
    for q in queue_counts(now):
        waits = q["oldest_wait_seconds"]
        oldest = span(waits) if waits is not None else ""
        yield [q["queue"], q["waiting"], q["due"], q["leased"] + q["running"], oldest]


def _busiest(limits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Limits that block something first, then the most used."""

    def rank(limit: dict[str, Any]) -> tuple[bool, int]:
        blocks = limit["paused"] or limit["open_until"] or limit["half_open_starts"]
        return not blocks, -limit["running"]

    return sorted(limits, key=rank)[:LIMITS]


def _failures() -> Iterator[list[Any]]:
    newest = Attempt.objects.order_by("-pk").values("pk")[:NEWEST]
    failed = Attempt.objects.filter(pk__in=newest, outcome=Outcome.FAILED).order_by("-pk")
    columns = ("ended_at", "execution__key", "step", "error_kind", "error_message")
    for ended_at, *rest, message in failed.values_list(*columns)[:FAILURES]:
        yield [f"{ended_at:%H:%M:%S}", *rest, message.partition("\n")[0][:100]]
