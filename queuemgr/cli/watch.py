"""`queue watch`: the fleet as a whole, live or once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from operator import itemgetter
from typing import Any

from django.db import Error as DatabaseError
from rich.console import Console
from rich.live import Live
from rich.text import Text

from queuemgr.base.queue_database import connection
from queuemgr.base.scheduler_lock import database_now
from queuemgr.cli.arguments import TERMINAL_SECONDS, above_zero
from queuemgr.cli.controls import limits_table
from queuemgr.cli.fleet_tables import batches_table, budget_line, oldest_wait, workers_table
from queuemgr.cli.output import Table, rounds, show, table
from queuemgr.cli.progress_bar import can_draw
from queuemgr.cli.subcommands import Options, option, subcommand
from queuemgr.cli.terminal import console
from queuemgr.cli.watch_screen import drawn
from queuemgr.models import Attempt, Outcome
from queuemgr.reporting import dashboard, stats
from queuemgr.reporting.queue_depths import queue_counts

PIPE_SECONDS = 10.0
"""Default interval where there is no terminal."""

LIMITS, FAILURES, NEWEST = 12, 5, 2_000
"""Limits and failures shown; newest attempts that are searched for failures."""


@subcommand(
    "watch",
    option(
        "--interval", type=above_zero, metavar="SECONDS",
        help=f"seconds between updates (default {TERMINAL_SECONDS:g}, or {PIPE_SECONDS:g} without a "
        "terminal)",
    ),
    option("--once", action="store_true", help="print once and exit"),
)  # fmt: skip
def watch(options: Options, out: Any) -> None:
    """a live view of the fleet that fits the terminal: alarms, what waits and why, limits, workers, failures

    queue watch
    queue watch --interval 5
    queue watch --once                        once, as plain text
    queue watch --interval 60 | tee log       without a terminal: a line per change
    exit codes: 0 also when interrupted by Ctrl-C, 5 no database (with --once; otherwise it reports that
    and retries), 64 wrong usage; all in docs/operate.md
    """
    if options["once"]:
        show(out, *_overview())
        return
    with suppress(KeyboardInterrupt):
        if can_draw(out):
            _live(out, options["interval"] or TERMINAL_SECONDS)
        else:
            _lines(out, options["interval"] or PIPE_SECONDS)


def _live(out: Any, interval: float) -> None:
    screen = console(out)
    with Live(console=screen, auto_refresh=False) as live:
        for _ in rounds(interval):
            live.update(_read(partial(_screen, screen)), refresh=True)


def _screen(screen: Console) -> Text:
    """As large as the terminal is now: a person may have changed it."""
    return drawn(dashboard.read(), screen.size.width, screen.size.height - 1)


def _lines(out: Any, interval: float) -> None:
    """A line per change, so that a log is not flooded."""
    written = ""
    for _ in rounds(interval):
        line = str(_read(_summary_line))
        if line != written:
            written = line
            out.write(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S} {line}")
            out.flush()


def _read(read: Callable[[], Any]) -> Any:
    """What `read` returns, or a message if the database does not answer."""
    try:
        return read()
    except DatabaseError as error:
        connection.close()
        reason = str(error).strip().partition("\n")[0]
        return Text(f"the database does not answer ({reason}): retrying")


def _summary_line() -> str:
    """The counts of executions by status, in one line."""
    counts = stats.counts().by_status
    return "  ".join(f"{status} {count}" for status, count in sorted(counts.items())) or "nothing"


def _overview() -> list[Table | str]:
    now, current = database_now(), stats.stats()
    queues = (
        [q["queue"], q["waiting"], q["due"], q["leased"] + q["running"], oldest_wait(q)]
        for q in queue_counts(now)
    )
    return [
        f"{now:%Y-%m-%d %H:%M:%S} UTC  {_summary_line()}",
        table("\nQueues", ["queue", "waiting", "due", "running", "oldest wait"], queues),
        limits_table("\nLimits", _busiest(current["limits"])),
        f"\n{budget_line(current['budget'])}",
        workers_table(current["workers"]),
        batches_table(current["batches"], current["at"]),
        table("\nRecent failures", ["when", "key", "step", "kind", "error"], _failures()),
    ]


def _busiest(limits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Limits that block something first, then the most used."""
    limits.sort(key=itemgetter("running"), reverse=True)
    limits.sort(key=lambda limit: not (limit["paused"] or limit["open_until"] or limit["half_open_starts"]))
    return limits[:LIMITS]


def _failures() -> Iterator[list[Any]]:
    newest = Attempt.objects.order_by("-pk").values("pk")[:NEWEST]
    failed = Attempt.objects.filter(pk__in=newest, outcome=Outcome.FAILED).order_by("-pk")
    columns = ("ended_at", "execution__key", "step", "error_kind", "error_message")
    for ended_at, *rest, message in failed.values_list(*columns)[:FAILURES]:
        yield [f"{ended_at:%H:%M:%S}", *rest, message.partition("\n")[0][:100]]
