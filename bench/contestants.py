"""The two sides: plain Celery, and Sluicegate on either database, on one private broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.gaps import read
from queuemgr.private_servers import PostgresServer, RedisServer, wait_for_port

ROOT = Path(__file__).resolve().parent.parent
CELERY = [sys.executable, "-m", "celery"]


@dataclass(frozen=True)
class Load:
    """So many pieces of work of so many seconds on so many slots."""

    count: int
    seconds: float
    slots: int
    traced: bool = False

    @property
    def ideal(self) -> float:
        """Pieces a second if no slot were ever idle; infinite for no-ops."""
        return self.slots / self.seconds if self.seconds else float("inf")


@dataclass(frozen=True)
class Result:
    """Pieces a second, and the moments of a traced run (nanoseconds)."""

    rate: float
    starts: list[int] = field(default_factory=list, repr=False)
    ends: list[int] = field(default_factory=list, repr=False)


@contextmanager
def servers() -> Iterator[tuple[RedisServer, PostgresServer, Path]]:
    """A private broker and PostgreSQL for the whole bench."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        redis, postgres = RedisServer(root / "redis"), PostgresServer(root / "postgres")
        process = subprocess.Popen(redis.command, stdout=subprocess.DEVNULL)
        try:
            wait_for_port(redis.port, process)
            postgres.start()
            yield redis, postgres, root
        finally:
            postgres.stop()
            process.kill()
            process.wait()


@contextmanager
def _worker(app: str, queue: str, slots: int, environment: dict[str, str]) -> Iterator[None]:
    command = [*CELERY, "-A", app, "worker", "-P", "threads", "-c", str(slots), "-Q", queue,
               "-l", "ERROR", "--without-gossip", "--without-mingle"]  # fmt: skip
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
    with _worker("bench.plain", "plain", load.slots, environment):
        while not marks.exists() or len(marks.read_text().splitlines()) < 2:
            time.sleep(0.1)
    first, last = map(int, marks.read_text().splitlines())
    rate = load.count / ((last - first) / 1e9 + load.seconds)
    return Result(rate, *(read(trace) if load.traced else ([], [])))


def sluicegate(load: Load, redis: RedisServer, root: Path, database_url: str) -> Result:
    """Enqueue everything, then start a worker: the backlog is in the database."""
    data = root / f"data-{time.monotonic_ns()}"
    trace = root / f"trace-{time.monotonic_ns()}"
    environment = {
        **os.environ,
        "BROKER_URL": redis.url,
        "DATABASE_URL": database_url,
        "SLUICE_DATA_DIR": str(data),
        "SLUICE_MAX_WORKERS": "1000",
        "SLUICE_DAILY_BUDGET": "0",
        "SLUICE_LOG_LEVEL": "WARNING",
    }
    manage = [sys.executable, "manage.py"]
    quiet = {"env": environment, "cwd": ROOT, "check": True, "stdout": subprocess.PIPE}
    subprocess.run([*manage, "migrate", "-v0"], **quiet)
    enqueue = ["queue", "enqueue", "--flow", "probe", "--count", str(load.count)]
    enqueue += ["--seconds", str(load.seconds), *(["--trace", str(trace)] if load.traced else [])]
    subprocess.run([*manage, *enqueue], **quiet)
    with _worker("project", "prep.normal", load.slots, environment):
        while not _all_done(environment, load.count):
            time.sleep(0.5)
    attempts = subprocess.run([*manage, "queue", "attempts", "--json"], **quiet).stdout.splitlines()
    rate = _rate([json.loads(line) for line in attempts])
    return Result(rate, *(read(trace) if load.traced else ([], [])))


def _all_done(environment: dict[str, str], count: int) -> bool:
    """Asked of the database from outside, seldom: the question must not slow the answer."""
    asked = subprocess.run(
        [sys.executable, "manage.py", "queue", "stats", "--json"],
        env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    statuses = json.loads(asked.stdout)["statuses"]
    return int(statuses.get("done", 0)) >= count


def _rate(attempts: list[dict[str, str]]) -> float:
    from datetime import datetime

    started = min(datetime.fromisoformat(attempt["started"]) for attempt in attempts)
    ended = max(datetime.fromisoformat(attempt["ended"]) for attempt in attempts)
    return len(attempts) / (ended - started).total_seconds()
