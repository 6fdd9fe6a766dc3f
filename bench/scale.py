"""`python -m bench.scale`: more worker processes on one PostgreSQL, and how long they hold the scheduler
lock.

Every process has the same slots. The fleet is started before a paused queue, and the clock runs from the
first start to the last end. Configurations take turns, round by round. Beside the rate: how long a decision
holds the lock (from the metric that workers store), the share of the time in which it is held, the most
connections that were open, and processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rich.console import Console

from bench import command_line
from bench.contestants import fleet_environment, fresh, manage, servers, worker
from bench.databases import Database
from bench.measures import table
from bench.processor import COLUMN, Spent, spent
from bench.progress import PATIENCE, rate, wait_until_done
from queuemgr.base.histogram import SHORT_BOUNDS, percentile
from queuemgr.local.private_servers import PostgresServer, RedisServer

QUEUE = "prep.normal"
SECONDS_OF_WORK = {False: 8.0, True: 2.0}
MOST = {False: 20_000, True: 1_500}
"""How long a run of steps is to last if no slot were ever idle, and executions at most: not quick, and
quick."""

COLUMNS = (
    "processes, step",
    "rate",
    "of ideal",
    "hold median",
    "95 %",
    "starts a hold",
    "held",
    "connections",
    COLUMN,
)


@dataclass(frozen=True)
class Fleet:
    """So many worker processes with so many slots each, and steps of so many seconds."""

    processes: int
    slots: int
    seconds: float

    @property
    def name(self) -> str:
        return f"{self.processes}, {self.seconds:g} s"

    @property
    def ideal(self) -> float:
        return self.processes * self.slots / self.seconds if self.seconds else float("inf")

    def executions(self, quick: bool) -> int:
        most = MOST[quick]
        return most // 2 if not self.seconds else min(most, int(self.ideal * SECONDS_OF_WORK[quick]))


@dataclass(frozen=True)
class Found:
    """What one run has shown; milliseconds."""

    rate: float
    share: float
    hold_median: float
    hold_p95: float
    hold_each: float
    starts_a_hold: float
    held: float
    connections: int
    worker: float
    database: float
    broker: float

    def cells(self) -> list[str]:
        return [
            f"{self.rate:,.0f}/s", f"{self.share:.2f}" if self.share else "", f"{self.hold_median:.1f} ms",
            f"{self.hold_p95:.1f} ms", f"{self.starts_a_hold:.1f}", f"{self.held:.0%}", str(self.connections),
            str(Spent(self.worker, self.database, self.broker)),
        ]  # fmt: skip


def main() -> None:
    options = _options()
    console = Console(width=150, stderr=options.json)
    console.print(
        f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} at the start, {options.rounds} rounds, "
        f"{options.slots} slots a process, PostgreSQL"
    )
    fleets = [Fleet(n, options.slots, seconds) for seconds in options.seconds for n in options.processes]
    runs: dict[Fleet, list[Found]] = {fleet: [] for fleet in fleets}
    with servers() as (redis, postgres, root):
        for _ in range(options.rounds):
            for fleet in fleets:
                runs[fleet].append(measured(fleet, fleet.executions(options.quick), redis, postgres, root))
    found = {fleet.name: _typical(each) for fleet, each in runs.items()}
    console.print(table("Scale", COLUMNS, [[name, *each.cells()] for name, each in found.items()]))
    if options.json:
        report = [{"name": name, "slots": options.slots, **asdict(each)} for name, each in found.items()]
        json.dump(report, sys.stdout, indent=2)


def _options() -> argparse.Namespace:
    parser = command_line.parser("bench.scale", __doc__, "--quick", "--processes 4 --seconds 0.05 --rounds 5")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4, 8], help="default 1 2 4 8")
    parser.add_argument("--seconds", type=float, nargs="+", default=[0, 0.05, 1], help="default 0 0.05 1")
    parser.add_argument("--slots", type=int, default=50, help="of each process (default 50)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each (default 3)")
    parser.add_argument("--quick", action="store_true", help="a fourth of the work, and one round")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    options.rounds = 1 if options.quick else options.rounds
    return options


def _typical(runs: Sequence[Found]) -> Found:
    """The median of each figure."""
    return Found(**{name: median(getattr(run, name) for run in runs) for name in asdict(runs[0])})


def measured(
    fleet: Fleet, executions: int, redis: RedisServer, postgres: PostgresServer, root: Path
) -> Found:
    """Run so many executions on a fleet of its own, with a database of its own."""
    database = Database(root / f"scale-{time.monotonic_ns()}", fresh(postgres))
    environment = fleet_environment(redis, database, max_workers=10_000, high_priority_reserved=0)
    manage(environment, "migrate", "-v0")
    manage(environment, "queue", "pause", QUEUE, "--reason", "until the fleet is there")
    manage(environment, "queue", "enqueue", "--flow", "probe", "--count", str(executions),
           "--seconds", str(fleet.seconds))  # fmt: skip
    with _connections(database) as most, ExitStack() as stack:
        for number in range(fleet.processes):
            stack.enter_context(worker("project", QUEUE, fleet.slots, environment, name=f"w{number}@bench"))
        _wait_for_workers(database, fleet.processes)
        manage(environment, "queue", "resume", QUEUE, "--reason", "the fleet is there")
        first, before = wait_until_done(database, executions // 10), spent()
        done = wait_until_done(database, executions)
        used = spent().since(before, done - first)
    return _found(fleet, database, rate(database), used, most[0])  # workers store their holds as they stop


def _wait_for_workers(database: Database, count: int) -> None:
    until = time.monotonic() + PATIENCE
    while database.rows("SELECT COUNT(*) FROM queuemgr_worker")[0][0] < count:
        if time.monotonic() > until:
            raise TimeoutError("the fleet did not start")
        time.sleep(0.25)


@contextmanager
def _connections(database: Database) -> Iterator[list[int]]:
    """The most connections to this database that were open at once, without the one that asks; looked at
    every half second."""
    most, ended = [0], threading.Event()

    def look() -> None:
        while not ended.wait(0.5):
            most[0] = max(most[0], int(database.rows(_CONNECTIONS)[0][0]) - 1)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield most
    finally:
        ended.set()
        looking.join()


_CONNECTIONS = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database()"
_HOLDS = "SELECT error_kind, attempts FROM queuemgr_minute WHERE error_kind LIKE 'lock_hold%'"


def _found(fleet: Fleet, database: Database, rate: float, used: Spent, connections: int) -> Found:
    sums: dict[str, int] = dict(database.rows(_HOLDS))
    counts = [sums.get(f"lock_hold_{bound:g}", 0) for bound in SHORT_BOUNDS]
    counts.append(sums.get("lock_hold_more", 0))
    seconds = sums.get("lock_hold_us", 0) / 1e6
    executions = database.rows("SELECT COUNT(*) FROM queuemgr_attempt")[0][0]
    share = rate / fleet.ideal
    return Found(
        rate=rate, share=share, connections=connections, **used._asdict(),
        hold_median=1e3 * (percentile(counts, 0.5, SHORT_BOUNDS) or 0),
        hold_p95=1e3 * (percentile(counts, 0.95, SHORT_BOUNDS) or 0),
        hold_each=1e3 * seconds / executions,
        starts_a_hold=executions / max(1, sum(counts)),
        held=min(1.0, seconds * rate / executions),
    )  # fmt: skip


if __name__ == "__main__":
    main()
