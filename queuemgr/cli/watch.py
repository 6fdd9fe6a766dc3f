from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from django.db import Error as DatabaseError
from django.db import connection
from rich.console import Group
from rich.live import Live
from rich.text import Text

from queuemgr.base.scheduler_lock import database_now
from queuemgr.cli.config_options import above_zero
from queuemgr.cli.limits import clock, limits_table
from queuemgr.cli.output import console, show, table
from queuemgr.cli.progress_bar import can_draw
from queuemgr.cli.replay import span
from queuemgr.flows.flow import PRIORITY_NAMES
from queuemgr.models import Attempt, Outcome
from queuemgr.reporting import queue_depths, stats

NAME = "watch"
HELP = "the fleet as it stands, kept up to date: queues, limits, budget, workers, recent failures"
EXAMPLES = """
  queue watch
  queue watch --interval 5
  queue watch --once                        once, as plain text
  queue watch --interval 60 | tee log       without a terminal: a line whenever something changed
  exit codes: 0 also when ended by Ctrl-C (that is how one leaves it), 5 no database (with --once; else
  it says so and goes on when the database is back), 64 wrong usage; all in docs/operate.md
"""

LOOK_SHARE = 5
"""Seconds between looks per second a look takes, at least: watching a large catalogue costs little."""

PIPE_SECONDS = 10.0
"""Between lines without a terminal, unless `--interval` says otherwise."""

LIMITS, FAILURES, NEWEST = 12, 5, 2_000
"""Limits and failures shown; attempts among which failures are looked for."""


def add_arguments(parser: Any) -> None:
    parser.add_argument(
        "--interval", type=above_zero,
        help=f"seconds between looks (default 2; without a terminal {PIPE_SECONDS:g})",
    )  # fmt: skip
    parser.add_argument("--once", action="store_true", help="look once, print, and end")


def run(options: dict[str, Any], out: Any) -> int:
    if options["once"]:
        show(out, picture())
        return 0
    try:
        if can_draw(out):
            _live(out, options["interval"] or 2.0)
        else:
            _lines(out, options["interval"] or PIPE_SECONDS)
    except KeyboardInterrupt:
        return 0
    return 0


def _live(out: Any, interval: float) -> None:
    with Live(_look(picture), console=console(out), auto_refresh=False) as live:
        while True:
            began = time.monotonic()
            live.update(_look(picture), refresh=True)
            _rest(began, interval)


def _lines(out: Any, interval: float) -> None:
    """A line whenever what it says has changed: nothing moves, and nothing floods a log."""
    said = ""
    while True:
        began = time.monotonic()
        line = str(_look(sentence))
        if line != said:
            said = line
            out.write(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S} {line}")
            out.flush()
        _rest(began, interval)


def _rest(began: float, interval: float) -> None:
    time.sleep(max(interval, LOOK_SHARE * (time.monotonic() - began)))


def _look(at: Callable[[], Any]) -> Any:
    """What there is to see; while the database is away, that it is: it may come back."""
    try:
        return at()
    except DatabaseError as error:
        connection.close()
        reason = str(error).strip().partition("\n")[0]
        return Text(f"the database does not answer ({reason}): looking again until it does")


def sentence() -> str:
    """The counts of executions by status, in a line."""
    found = stats.counts().by_status
    return "  ".join(f"{status} {count}" for status, count in sorted(found.items())) or "nothing"


def picture() -> Group:
    """All of it, as tables."""
    now, seen = database_now(), stats.stats()
    budget = seen["budget"]
    of = budget["budget"] if budget["budget"] is not None else "no limit"
    return Group(
        Text(f"{now:%Y-%m-%d %H:%M:%S} UTC  {sentence()}"),
        table("\nQueues", ["queue", "waiting", "due", "running", "oldest wait"], _queues(now)),
        limits_table("\nLimits", _busiest(seen["limits"])),
        Text(f"\nBudget {budget['day']}: {budget['spent']} spent and {budget['reserved']} reserved of {of}"),
        table("\nWorkers", ["worker", "busy", "slots", ""], _workers(seen["workers"])),
        table("\nBatches", ["batch", "ended", "of", "failed", "likely done"], batch_rows(seen["batches"])),
        table("\nRecent failures", ["when", "key", "step", "kind", "error"], _failures()),
    )  # fmt: skip


def _queues(now: datetime) -> Iterator[list[Any]]:
    for depth in queue_depths.depths(now):
        waits = depth.oldest_wait(now)
        oldest = span(waits) if waits is not None else ""
        running = depth.leased + depth.running
        name = f"{depth.phase}.{PRIORITY_NAMES[depth.priority]}"
        yield [name, depth.waiting, depth.due, running, oldest]


def _busiest(limits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that stop something first, then those most in use."""

    def weight(facts: dict[str, Any]) -> tuple[bool, int]:
        held_back = facts["paused"] or facts["open_until"] or facts["half_open_starts"]
        return not held_back, -facts["running"]

    return sorted(limits, key=weight)[:LIMITS]


def _workers(workers: list[dict[str, Any]]) -> Iterator[list[Any]]:
    for worker in workers:
        state = "draining" if worker["draining"] else ""
        yield [worker["worker"], worker["busy"], worker["slots"], state]


def batch_rows(batches: Iterable[Mapping[str, Any]]) -> Iterator[list[Any]]:
    """Batches as lines of a table: name, ended, of, failed, likely done."""
    for batch in batches:
        ended = batch["total"] - batch["waiting"] - batch["running"]
        yield [batch["batch"], ended, batch["total"], batch["failed"], clock(batch["eta"])]


def _failures() -> Iterator[list[Any]]:
    newest = Attempt.objects.order_by("-pk").values("pk")[:NEWEST]
    failed = Attempt.objects.filter(pk__in=newest, outcome=Outcome.FAILED).order_by("-pk")
    columns = ("ended_at", "execution__key", "step", "error_kind", "error_message")
    for ended_at, *rest, message in failed.values_list(*columns)[:FAILURES]:
        yield [f"{ended_at:%H:%M:%S}", *rest, message.partition("\n")[0][:100]]
