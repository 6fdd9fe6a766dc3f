"""The contestants: plain Celery, and Sluicegate on either database, with one private broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from bench.child import ROOT
from bench.databases import Database, new_database, postgres
from bench.gaps import read
from bench.processor import Spent, spent
from bench.progress import PATIENCE, rate, wait_until_done
from queuemgr.local.private_servers import PostgresServer, RedisServer, wait_for_port

CELERY = [sys.executable, "-m", "celery"]


@dataclass(frozen=True)
class Load:
    """`count` tasks of `seconds` each on `slots` slots."""

    count: int
    seconds: float
    slots: int
    traced: bool = False

    @property
    def ideal(self) -> float:
        """Tasks per second if no slot were ever idle; infinite for no-ops."""
        return self.slots / self.seconds if self.seconds else float("inf")


@dataclass(frozen=True)
class Result:
    """Tasks per second, milliseconds of processor for each after the first tenth, and the start and end times
    of a traced run in nanoseconds."""

    rate: float
    spent: Spent
    starts: list[int] = field(default_factory=list, repr=False)
    ends: list[int] = field(default_factory=list, repr=False)


@contextmanager
def servers() -> Iterator[tuple[RedisServer, PostgresServer, Path]]:
    """A private broker and a private PostgreSQL for all runs."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        with broker(root / "redis") as redis, postgres(root / "postgres") as server:
            yield redis, server, root


@contextmanager
def broker(directory: Path) -> Iterator[RedisServer]:
    """A private broker that runs while the block does."""
    redis = RedisServer(directory)
    process = subprocess.Popen(redis.command, stdout=subprocess.DEVNULL)
    try:
        wait_for_port(redis.port, process)
        yield redis
    finally:
        process.kill()
        process.wait()


_numbers = count(1)


def fresh(server: PostgresServer) -> str:
    """The URL of a fresh database on the private server."""
    return new_database(server, f"bench{next(_numbers)}")


@contextmanager
def worker(
    app: str, queue: str, slots: int, environment: Mapping[str, str], pool: str = "threads", name: str = ""
) -> Iterator[None]:
    """A Celery worker with `slots` threads or processes that runs while the block does."""
    command = [*CELERY, "-A", app, "worker", "-P", pool, "-c", str(slots), "-Q", queue,
               "-l", "ERROR", "--without-gossip", "--without-mingle",
               *(["-n", name] if name else [])]  # fmt: skip
    process = subprocess.Popen(
        command,
        env={**environment, "PYTHONWARNINGS": "ignore"},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def plain_celery(load: Load, redis: RedisServer, root: Path) -> Result:
    """Publish everything, then start a worker: the backlog is in the broker."""
    marks, trace = root / f"marks-{time.monotonic_ns()}", root / f"plain-{time.monotonic_ns()}"
    environment = {**os.environ, "BROKER_URL": redis.url, "PLAIN_MARKS": str(marks)}
    publish = (
        "from bench.plain import work\n"
        f"for _ in range({load.count}): "
        f"work.delay({load.seconds}, {str(trace) if load.traced else ''!r}, {load.count})"
    )
    subprocess.run([sys.executable, "-c", publish], env=environment, cwd=ROOT, check=True)
    with worker("bench.plain", "plain", load.slots, environment):
        wait_for_marks(marks, 2)
        began = spent()
        first, _, last = wait_for_marks(marks, 3)
        used = spent().since(began, load.count - load.count // 10)
    rate = load.count / ((last - first) / 1e9 + load.seconds)
    return Result(rate, used, *(read(trace) if load.traced else ([], [])))


def wait_for_marks(marks: Path, count: int) -> list[int]:
    """The times at which the first task, the one after a tenth and the last one ended, once so many did."""
    until = time.monotonic() + PATIENCE
    while not marks.exists() or len(lines := marks.read_text().splitlines()) < count:
        if time.monotonic() > until:
            raise TimeoutError(f"the tasks were not done after {PATIENCE} s")
        time.sleep(0.05)
    return [int(line) for line in lines]


def sluicegate(load: Load, redis: RedisServer, root: Path, database_url: str) -> Result:
    """Enqueue everything, then start a worker: the backlog is in the database."""
    database = Database(root / f"data-{time.monotonic_ns()}", database_url)
    trace = root / f"trace-{time.monotonic_ns()}"
    environment = fleet_environment(redis, database)
    manage(environment, "migrate", "-v0")
    enqueue = ["queue", "enqueue", "--flow", "probe", "--count", str(load.count)]
    enqueue += ["--seconds", str(load.seconds), *(["--trace", str(trace)] if load.traced else [])]
    manage(environment, *enqueue)
    with worker("project", "prep.normal", load.slots, environment):
        first, began = wait_until_done(database, load.count // 10), spent()
        done = wait_until_done(database, load.count)
        used = spent().since(began, done - first)
    return Result(rate(database), used, *(read(trace) if load.traced else ([], [])))


def fleet_environment(redis: RedisServer, database: Database, **config: object) -> dict[str, str]:
    """The environment of the fleet's processes: broker, database, no budget, and these settings."""
    stated = {"max_workers": 1000, "daily_budget": 0, "log_level": "WARNING", **config}
    return {
        **os.environ,
        **database.environment,
        "BROKER_URL": redis.url,
        **{f"SLUICE_{name.upper()}": str(value) for name, value in stated.items()},
    }


def manage(environment: Mapping[str, str], *arguments: str) -> None:
    """Run `manage.py` with these arguments; what it prints is dropped."""
    command = [sys.executable, "manage.py", *arguments]
    subprocess.run(command, env=dict(environment), cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
