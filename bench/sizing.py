"""What one worker takes, idle and with every slot busy: connections to PostgreSQL and the broker, memory.

The worker is that of a project with one app, whose task makes a query of its own and waits. Connections are
counted by the servers; memory is the proportional share (PSS) of the worker's processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.command_line import parser
from bench.contestants import broker
from bench.databases import new_database, postgres
from queuemgr.local.private_servers import PostgresServer, RedisServer

WORKERS = (("threads", 8), ("threads", 40), ("prefork", 8), ("prefork", 40))
SECONDS_OF_A_TASK = 0.5
TASKS_PER_SLOT = 12
LONGEST = 180
ENQUEUE = (
    "from bench.sized.tasks import look_and_wait as t; t.enqueue_many({{'seconds': {}}} for _ in range({}))"
)


@dataclass
class Sample:
    database: int = 0
    broker: int = 0
    mebibytes: int = 0

    def grow(self, other: Sample) -> None:
        self.database = max(self.database, other.database)
        self.broker = max(self.broker, other.broker)
        self.mebibytes = max(self.mebibytes, other.mebibytes)


@dataclass
class Place:
    """The servers of one worker, and its environment."""

    url: str
    redis: RedisServer
    environment: dict[str, str]

    def sample(self, worker: subprocess.Popen[bytes]) -> Sample:
        import psycopg
        from redis import Redis

        with psycopg.connect(self.url, autocommit=True) as link:
            count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> %s"
            row = link.execute(count, [link.info.backend_pid]).fetchone()
        with Redis.from_url(self.redis.url) as client:
            connections = len(client.client_list()) - 1
        processes = [psutil.Process(worker.pid), *psutil.Process(worker.pid).children(recursive=True)]
        pss = sum(process.memory_full_info().pss for process in processes)
        return Sample(row[0] if row else 0, connections, round(pss / 2**20))

    def manage(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "django", *arguments]
        subprocess.run(command, env=self.environment, check=True, capture_output=True)


@contextmanager
def servers(name: str, root: Path, server: PostgresServer) -> Iterator[Place]:
    url = new_database(server, name)
    with broker(root / f"redis-{name}") as redis:
        yield Place(url, redis, _environment(name, root, server, redis))


def _environment(name: str, root: Path, server: PostgresServer, redis: RedisServer) -> dict[str, str]:
    return {
        **os.environ, "DJANGO_SETTINGS_MODULE": "bench.sized.settings", "SIZED_NAME": name,
        "SIZED_PORT": str(server.port), "SIZED_PASSWORD": server.password, "SIZED_BROKER": redis.url,
        "SLUICE_DATA_DIR": str(root / name),
        "PYTHONUNBUFFERED": "1",
    }  # fmt: skip


def measure(pool: str, slots: int, root: Path, server: PostgresServer) -> tuple[Sample, Sample]:
    """Idle, and the most of each while every slot is busy."""
    name = f"{pool}{slots}"
    with servers(name, root, server) as place:
        place.manage("migrate", "--verbosity", "0")
        log = root / f"{name}.log"
        command = [sys.executable, "-m", "django", "worker", "--pool", pool, "--slots", str(slots)]
        with log.open("wb") as out:
            worker = subprocess.Popen(command, env=place.environment, stdout=out, stderr=out)
        try:
            _wait(lambda: " ready." in log.read_text())
            time.sleep(3)
            idle, busy = place.sample(worker), Sample()
            place.manage("shell", "-c", ENQUEUE.format(SECONDS_OF_A_TASK, slots * TASKS_PER_SLOT))
            until = time.monotonic() + SECONDS_OF_A_TASK * TASKS_PER_SLOT
            while time.monotonic() < until:
                busy.grow(place.sample(worker))
                time.sleep(0.2)
            return idle, busy
        finally:
            worker.terminate()
            worker.wait(60)


def _wait(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {LONGEST} s")
        time.sleep(0.1)


def main() -> None:
    parser("bench.sizing", __doc__, "").parse_args()
    print("| pool | slots | connections to PostgreSQL, idle / busy | to Redis | MiB, idle / busy |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        with postgres(root / "postgres") as server:
            for pool, slots in WORKERS:
                idle, busy = measure(pool, slots, root, server)
                database = f"{idle.database} / {busy.database}"
                memory = f"{idle.mebibytes} / {busy.mebibytes}"
                print(f"| {pool} | {slots} | {database} | {busy.broker} | {memory} |", flush=True)


if __name__ == "__main__":
    main()
