"""`python -m bench.rates`: how much of a rate is used, and whether it is ever exceeded, where work begins.

A real worker and a real broker, more work and more slots than the rates can use, and a poll interval so
long that it never helps. Starts are taken from the trace that the work itself writes.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean

import psutil
from rich.console import Console

from bench import command_line
from bench.child import ask
from bench.contestants import broker, fleet_environment, worker
from bench.databases import NAMES, Database, databases, kinds
from bench.measures import Aim, table
from queuemgr.base.rate import Rate, parse_rate
from queuemgr.local.private_servers import RedisServer

POLL_INTERVAL = 60
STEPS = (0.0, 0.3)
"""Seconds that the work takes."""

WARM_UP = 10.0
"""Seconds after the first start that are not counted: the children of a prefork pool start meanwhile."""

PATIENCE = 60


@dataclass(frozen=True)
class Case:
    """So many keys, each with this rate, and so many slots."""

    rate: str
    keys: int
    slots: int
    aim: float

    @property
    def name(self) -> str:
        return self.rate if self.keys == 1 else f"{self.keys} keys of {self.rate}"

    @property
    def parsed(self) -> Rate:
        rate = parse_rate(self.rate)
        assert rate is not None
        return rate


CASES = (
    Case("1/3s", 1, 8, 0.98),
    Case("1/s", 1, 8, 0.98),
    Case("5/s", 1, 8, 0.98),
    Case("50/s", 1, 24, 0.9),
    Case("1/s", 100, 48, 0.98),
)


@dataclass(frozen=True)
class Used:
    """The share of the rate used, the shortest gap between two starts of a key as a share of the interval,
    and the processor seconds of the worker for each second."""

    share: float
    shortest_gap: float
    processor: float


def share_of_rate(starts: Sequence[float], interval: float, seconds: float) -> float:
    """Starts over those possible in so many seconds from the first, which counts; a start that would come
    after the end is not missed."""
    if not starts:
        return 0.0
    within = [start for start in sorted(starts) if start < min(starts) + seconds]
    elapsed = within[-1] - within[0]
    possible = elapsed if seconds - elapsed <= interval * 1.02 else seconds
    return (len(within) - 1) * interval / possible if possible else 1.0


def shortest_gap(starts: Sequence[float]) -> float:
    """Seconds between the two starts that came closest; infinite for fewer than two."""
    return min((later - earlier for earlier, later in pairwise(sorted(starts))), default=float("inf"))


def main() -> None:
    options = _options()
    console = Console(width=120)
    console.print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} at the start, "
                  f"{options.seconds:g} s each")  # fmt: skip
    for kind in kinds(options.database):
        with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
            root = Path(folder)
            root.chmod(0o755)
            with broker(root / "redis") as redis, databases(kind, root) as made:
                for pool in options.pools:
                    rows = []
                    for case in CASES:
                        if options.only and case.name not in options.only:
                            continue
                        for seconds in options.steps:
                            found = used(case, seconds, pool, options.seconds, redis, made.make())
                            rows.append(_row(case, seconds, found))
                    columns = ["", "share of the rate", "shortest gap", "CPU s/s", ""]
                    console.print(table(f"{NAMES[kind]}, {pool}", columns, rows))


def _row(case: Case, seconds: float, found: Used) -> list[str]:
    return [
        f"{case.name}, steps of {seconds:g} s",
        f"{found.share:.3f}",
        f"{found.shortest_gap:.3f}",
        f"{found.processor:.2f}",
        Aim(case.aim, at_least=True).verdict(found.share),
    ]


def _options() -> argparse.Namespace:
    parser = command_line.parser("bench.rates", __doc__, "--seconds 10 --pools threads")
    parser.add_argument("--seconds", type=float, default=20, help="seconds measured (default 20)")
    parser.add_argument("--database", choices=("sqlite", "postgres", "both"), default="both")
    parser.add_argument("--pools", nargs="+", default=["threads", "prefork"], help="Celery pools")
    parser.add_argument("--steps", nargs="+", type=float, default=STEPS, help="seconds the work takes")
    parser.add_argument("--only", nargs="+", help="these cases, as the table names them")
    return parser.parse_args()


def used(
    case: Case, seconds: float, pool: str, measured: float, redis: RedisServer, database: Database
) -> Used:
    """Run a fresh fleet on this case for so many seconds, and as many more as its interval is long."""
    measured = max(measured, 10 * case.parsed.interval)
    environment = fleet_environment(redis, database, high_priority_reserved=0, poll_interval=POLL_INTERVAL)
    trace = database.directory / "trace"
    count = case.keys * (int((measured + 3 * WARM_UP) / case.parsed.interval) + 20)
    ask(
        "bench.limited", environment, do="prepare",
        limits={"fleet": {"max_running": 0}, "key:*": {"rate": case.rate}},
        keys=case.keys, saturated=0, count=count, seconds=seconds, trace=str(trace),
    )  # fmt: skip
    with worker("project", "prep.normal", case.slots, environment, pool):
        _wait_for(trace)
        time.sleep(WARM_UP)
        with _processor() as spent:
            time.sleep(measured + case.parsed.interval)
    starts = [_after_warm_up(starts) for starts in _starts(trace).values()]
    interval = case.parsed.interval
    shares = [share_of_rate(some, interval, measured) for some in starts]
    shares += [0.0] * (case.keys - len(shares))
    return Used(mean(shares), min(map(shortest_gap, starts)) / interval, spent[0] / (measured + interval))


def _wait_for(trace: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not trace.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing started within {PATIENCE} s")
        time.sleep(0.05)


def _starts(trace: Path) -> Mapping[str, list[float]]:
    """When work started under each key, in seconds."""
    starts: defaultdict[str, list[float]] = defaultdict(list)
    for line in trace.read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "start":
            starts[event["limit_key"]].append(event["monotonic_ns"] / 1e9)
    return starts


def _after_warm_up(starts: Sequence[float]) -> list[float]:
    return [start for start in starts if start >= min(starts) + WARM_UP]


@contextmanager
def _processor() -> Iterator[list[float]]:
    """The processor seconds that the children of this process used while the block ran."""
    spent: list[float] = []
    before = _used_by_children()
    yield spent
    spent.append(_used_by_children() - before)


def _used_by_children() -> float:
    children = psutil.Process().children(recursive=True)
    times = [child.cpu_times() for child in children if child.is_running()]
    return sum(each.user + each.system for each in times)


if __name__ == "__main__":
    main()
