"""`python -m bench.recovery`: seconds from a fault to the next start of work, and until all lost work runs
again.

The fleet of the acceptance tests, with real processes: a worker is killed, the broker loses everything or
is killed. No beat runs, so the workers' heartbeats replace its ticks: recovery is slower that way.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import command_line
from bench.child import ROOT
from bench.databases import NAMES, kinds, postgres
from bench.measures import Spread, spread, table
from tests.acceptance.databases import FILE, Database, PostgresDatabase, SqliteFile
from tests.acceptance.fleet import Fleet, environment
from tests.acceptance.processes import Process

SLOTS = 8
BUSY_SECONDS = 2.0
"""Seconds a probe runs on a worker that is about to be killed."""


@dataclass(frozen=True)
class Recovery:
    """Seconds from the fault until any work started, and until all work it interrupted had started again."""

    next_start: float
    all_again: float


@dataclass(frozen=True)
class Found:
    """The recoveries from one kind of fault."""

    fault: str
    rounds: int
    next_start: Spread
    all_again: Spread

    def cells(self) -> list[str]:
        values = (self.next_start, self.all_again)
        return [self.fault, *(f"{each.median:.2f} s, {each.highest:.2f} s" for each in values)]


class Site:
    """A fleet with one or two workers, to which one kind of fault happens repeatedly."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._rounds = count(1)
        self._keep_up: Callable[[], bool] = lambda: True

    def start(self, name: str = "worker") -> Process:
        """Start a worker, and wait until it is ready."""
        return self.fleet.start_worker(SLOTS, name=name)

    def start_supervised(self) -> None:
        """A worker that is restarted when it ends."""
        self._keep_up = self.fleet.supervise(self.start)

    def enqueue(self, number: int, seconds: float) -> None:
        prefix = f"round-{next(self._rounds)}"
        self.fleet.enqueue(number, seconds=seconds, key_prefix=prefix, trace=self.fleet.trace_file)

    def keys_held(self, worker: str = "") -> set[str]:
        """Executions leased to this worker; those leased and not yet begun when none is named."""
        whose = "w.name LIKE %s" if worker else "l.worker_id IS NULL AND %s = ''"
        rows = self.fleet.database.rows(
            "SELECT e.key FROM queuemgr_lease l JOIN queuemgr_execution e ON e.id = l.execution_id "
            f"LEFT JOIN queuemgr_worker w ON w.id = l.worker_id WHERE {whose}",
            f"{worker}@%" if worker else "",
        )
        return {key for (key,) in rows}

    def wait_until_held(self, number: int, worker: str = "") -> set[str]:
        """Wait until `count` are leased; returns their keys."""
        self.fleet.wait_until(f"{number} held", lambda: len(self.keys_held(worker)) == number, within=60)
        return self.keys_held(worker)

    def recovered(self, since: int, hit: set[str], within: float) -> Recovery:
        """Wait until all of these have started since `since`, and no work is left."""
        self.fleet.wait_until(
            f"{len(hit)} start again",
            lambda: self._keep_up() and hit <= {key for key, at in self._starts() if at > since},
            within,
        )
        starts = [(key, at) for key, at in self._starts() if at > since]
        again = [min(at for key, at in starts if key == one) for one in hit]
        self.fleet.wait_until(
            "nothing left", lambda: self._keep_up() and set(self.fleet.states()) == {"done"}, within
        )
        return Recovery((min(at for _, at in starts) - since) / 1e9, (max(again) - since) / 1e9)

    def _starts(self) -> Iterator[tuple[str, int]]:
        if not self.fleet.trace_file.exists():
            return
        for line in self.fleet.trace_file.read_text().splitlines():
            event = json.loads(line)
            if event["event"] == "start":
                yield event["key"], event["monotonic_ns"]


Fault = Callable[[Fleet, int, float], Iterator[Recovery]]


def worker_restarted(fleet: Fleet, rounds: int, within: float) -> Iterator[Recovery]:
    """kill -9 of the only worker, restarted at once under its name, as a supervisor does."""
    site = Site(fleet)
    worker = site.start()
    for _ in range(rounds):
        site.enqueue(2 * SLOTS, BUSY_SECONDS)
        hit = site.wait_until_held(SLOTS, "worker")
        died = time.monotonic_ns()
        worker.kill_group()
        worker = fleet.start_worker(SLOTS, wait=False)
        yield site.recovered(died, hit, within)


def worker_gone(fleet: Fleet, rounds: int, within: float) -> Iterator[Recovery]:
    """kill -9 of one of two workers; the other takes over its work when its leases expire."""
    site = Site(fleet)
    site.start("survivor")
    for number in range(rounds):
        name = f"doomed{number}"  # a restart under the same name would free the leases
        doomed = site.start(name)
        site.enqueue(4 * SLOTS, BUSY_SECONDS)
        hit = site.wait_until_held(SLOTS, name)
        died = time.monotonic_ns()
        doomed.kill_group()
        yield site.recovered(died, hit, within)


def broker_flushed(fleet: Fleet, rounds: int, within: float) -> Iterator[Recovery]:
    """FLUSHALL with a message for every slot in the broker, while the worker is frozen."""
    site = Site(fleet)
    worker = site.start()
    for _ in range(rounds):
        hit = _with_messages_out(site, worker)
        with fleet.redis() as redis:
            flushed = time.monotonic_ns()
            redis.flushall()
        worker.thaw()
        yield site.recovered(flushed, hit, within)


def broker_restarted(fleet: Fleet, rounds: int, within: float) -> Iterator[Recovery]:
    """kill -9 of the broker with a message for every slot in it; it restarts empty at once."""
    site = Site(fleet)
    site.start_supervised()
    for _ in range(rounds):
        worker = next(p for p in reversed(fleet.processes) if p.name == "worker")
        hit = _with_messages_out(site, worker)
        died = time.monotonic_ns()
        fleet.redis_process.kill_group()
        fleet.start_redis()
        worker.thaw()
        yield site.recovered(died, hit, within)


def _with_messages_out(site: Site, worker: Process) -> set[str]:
    """Freeze an idle worker and enqueue for all its slots; returns the keys that wait for it."""
    worker.freeze()
    site.enqueue(SLOTS, 0.1)
    return site.wait_until_held(SLOTS)


FAULTS: dict[str, Fault] = {
    "worker killed, started again": worker_restarted,
    "worker killed, another takes over": worker_gone,
    "broker flushed": broker_flushed,
    "broker killed, started again": broker_restarted,
}


def main() -> None:
    options = _options()
    console = Console(width=110, stderr=options.json)
    config = {
        "lease_seconds": options.lease,
        "heartbeat_seconds": options.heartbeat,
        "poll_interval": options.poll,
    }
    stated = ", ".join(f"{name}={value:g}" for name, value in config.items())
    console.print(f"{stated}; {options.rounds} rounds, {SLOTS} slots a worker, "
                  f"load {os.getloadavg()[0]:.1f} at the start")  # fmt: skip
    report: dict[str, Any] = {"settings": config}
    for kind in kinds(options.database):
        found = [measure(kind, name, fault, options.rounds, config) for name, fault in FAULTS.items()]
        columns = ["", "next start: median, highest", "all it hit started again"]
        console.print(table(NAMES[kind], columns, [each.cells() for each in found]))
        report[kind] = [asdict(each) for each in found]
    if options.json:
        json.dump(report, sys.stdout, indent=2)


def _options() -> argparse.Namespace:
    parser = command_line.parser("bench.recovery", __doc__, "--rounds 3 --database postgres")
    parser.add_argument("--rounds", type=int, default=5, help="of each fault (default 5)")
    parser.add_argument("--lease", type=float, default=10, help="SLUICE_LEASE_SECONDS (default 10 here)")
    parser.add_argument(
        "--heartbeat", type=float, default=1, help="SLUICE_HEARTBEAT_SECONDS (default 1 here)"
    )
    parser.add_argument("--poll", type=float, default=0.5, help="SLUICE_POLL_INTERVAL (default 0.5 here)")
    parser.add_argument("--database", choices=("sqlite", "postgres", "both"), default="both")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    return parser.parse_args()


def measure(kind: str, name: str, fault: Fault, rounds: int, config: dict[str, float]) -> Found:
    """Let one kind of fault happen `rounds` times to its own fleet."""
    within = 3 * config["lease_seconds"] + 10 * config["poll_interval"] + 60
    with _fleet(kind, config) as fleet:
        recoveries = list(fault(fleet, rounds, within))
    return found_of(name, recoveries)


def found_of(name: str, recoveries: Sequence[Recovery]) -> Found:
    """The measurements of a fault's rounds."""
    return Found(
        name,
        len(recoveries),
        spread([recovery.next_start for recovery in recoveries]),
        spread([recovery.all_again for recovery in recoveries]),
    )


@contextmanager
def _fleet(kind: str, config: dict[str, Any]) -> Iterator[Fleet]:
    """A fleet whose every start is by message, with nothing left of it afterwards."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        with _migrated(kind, root) as made:
            home = root / "fleet"
            home.mkdir()
            fleet = Fleet(home, made.copy(home), **config, slot_handover_seconds=0)
            try:
                yield fleet
            finally:
                fleet.close()


@contextmanager
def _migrated(kind: str, root: Path) -> Iterator[Database]:
    """A migrated database to copy, and its server, while the block runs."""
    directory = root / "migrated"
    directory.mkdir()
    if kind == "sqlite":
        yield _migrate(SqliteFile(directory / FILE), directory)
        return
    with postgres(root / "postgres") as server:
        yield _migrate(PostgresDatabase.create(server), directory)


def _migrate(made: Database, directory: Path) -> Database:
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
        env=environment(directory, made), cwd=ROOT, check=True,
    )  # fmt: skip
    return made


if __name__ == "__main__":
    main()
