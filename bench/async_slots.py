"""`python -m bench.async_slots`: how much of its async slots one worker uses, and what that costs."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
from rich.console import Console

from bench import command_line
from bench.child import ROOT, ask
from bench.contestants import CELERY, broker, fleet_environment
from bench.databases import NAMES, Database, databases, kinds
from bench.measures import Aim, table

THREADS = 2
PATIENCE = 600
AIM, MEMORY_AIM = 0.8, 300.0
"""The share of the ideal, and the megabytes of the worker."""


@dataclass(frozen=True)
class Run:
    """Steps a second between the first begin and the last end, as a share of what the slots could do; at its
    highest the memory of the worker in megabytes; processor milliseconds of the worker for each step, without
    its start."""

    share: float
    memory: float
    processor: float


def main() -> None:
    options, console = _options(), Console()
    console.print(
        f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} at the start, {options.rounds} rounds: "
        f"{options.count:,} steps of {options.seconds:g} s on {options.slots:,} async slots of one worker"
    )
    rows = []
    for kind in kinds(options.database):
        runs = [_measured(options, kind) for _ in range(options.rounds)]
        share, memory = (median(getattr(run, name) for run in runs) for name in ("share", "memory"))
        low, high = min(run.share for run in runs), max(run.share for run in runs)
        rows.append([
            NAMES[kind], f"{share:.2f} ({low:.2f}-{high:.2f})", Aim(AIM, at_least=True).verdict(share),
            f"{memory:.0f} MB", Aim(MEMORY_AIM).verdict(memory),
            f"{median(run.processor for run in runs):.2f} ms",
        ])  # fmt: skip
    columns = ("database", "share of ideal", "aim", "memory", "aim", "processor a step")
    console.print(table("Async slots", columns, rows))


def _options() -> argparse.Namespace:
    parser = command_line.parser("bench.async_slots", __doc__, "--slots 100 --count 500 --rounds 1")
    parser.add_argument("--slots", type=int, default=2_000, help="async slots (default 2,000)")
    parser.add_argument("--count", type=int, default=20_000, help="steps (default 20,000)")
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds each sleeps (default 1)")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each (default 5)")
    parser.add_argument("--database", choices=("sqlite", "postgres", "both"), default="both")
    return parser.parse_args()


def _measured(options: argparse.Namespace, kind: str) -> Run:
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        Path(folder).chmod(0o755)  # the server of PostgreSQL has another user where this is run by root
        with databases(kind, Path(folder)) as made, broker(Path(folder) / "redis") as redis:
            database = made.make()
            environment = fleet_environment(
                redis, database, async_slots=options.slots, max_workers=2 * options.slots,
                high_priority_reserved=0,
            )  # fmt: skip
            environment["DJANGO_SETTINGS_MODULE"] = "project.settings"
            _run(environment, "manage.py", "migrate", "-v0")
            ask(
                "bench.async_backlog", environment, do="enqueue", count=options.count, seconds=options.seconds
            )
            return _worked(options, environment, database)


def _run(environment: Mapping[str, str], *arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], env=dict(environment), cwd=ROOT, check=True)


def _worked(options: argparse.Namespace, environment: Mapping[str, str], database: Database) -> Run:
    """Start a worker before a full queue, and wait until that is empty."""
    command = [*CELERY, "-A", "project", "worker", "-P", "threads", "-c", str(THREADS), "-Q", "prep.normal",
               "-l", "ERROR", "-I", "bench.async_work", "--without-gossip", "--without-mingle"]  # fmt: skip
    process = psutil.Popen(command, env=dict(environment), cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        memory, until, before = 0.0, time.monotonic() + PATIENCE, 0.0
        while database.rows("SELECT COUNT(*) FROM queuemgr_attempt")[0][0] < options.count:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("the worker did not do its work")
            if not database.rows("SELECT 1 FROM queuemgr_worker"):
                before = _processor(process)  # until it takes work
            memory = max(memory, process.memory_info().rss / 1e6)
            time.sleep(0.1 if not before else 0.5)
        spent = _processor(process) - before
    finally:
        process.terminate()
        process.wait(60)
    seconds = float(database.rows(_ELAPSED[bool(database.url)])[0][0])
    ideal = options.slots / options.seconds
    share = options.count / seconds / ideal
    return Run(share, memory, 1e3 * spent / options.count)


def _processor(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


_ELAPSED = {
    True: "SELECT EXTRACT(EPOCH FROM MAX(ended_at) - MIN(started_at)) FROM queuemgr_attempt",
    False: "SELECT (julianday(MAX(ended_at)) - julianday(MIN(started_at))) * 86400 FROM queuemgr_attempt",
}

if __name__ == "__main__":
    main()
