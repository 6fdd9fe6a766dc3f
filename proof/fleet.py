"""The fleet under proof: broker, database, worker groups and beat, each a real process that is restarted
when it ends, as a supervisor does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from proof.broker_proxy import BrokerProxy
from proof.console import Console
from proof.plan import LEASE_SECONDS, LIMIT_VALUES
from proof.tables import Tables
from queuemgr.local.private_servers import PostgresServer, RedisServer, wait_for_port
from tests.acceptance.fleet import STEP_QUEUES
from tests.acceptance.processes import Process, using
from tests.fork_server import REPOSITORY

SETTINGS = {
    "lease_seconds": LEASE_SECONDS, "heartbeat_seconds": 2, "poll_interval": 0.5, "stale_interval": 5,
    "shutdown_grace": 2, "slot_handover_seconds": 3, "allow_private_addresses": True,
    "max_workers": LIMIT_VALUES["fleet"]["max_running"],
    "high_priority_reserved": LIMIT_VALUES["fleet"]["reserved_high"],
    "daily_budget": LIMIT_VALUES["fleet"]["daily_budget"],
    "max_prep": LIMIT_VALUES["phase:prep"]["max_running"],
    "max_expensive": LIMIT_VALUES["phase:expensive"]["max_running"],
    "max_wrap": LIMIT_VALUES["phase:wrap"]["max_running"],
    "max_per_host": LIMIT_VALUES["host:*"]["max_running"],
}  # fmt: skip
"""Short leases, so that recovery from faults can be watched, and messages are frequent."""

START_SECONDS = 60.0

CLOCK = Path(__file__).parent / "shifted_clock"
CELERY = (sys.executable, "-W", "ignore", "-m", "celery", "-A", "project")


class Postgres(PostgresServer):
    """A private PostgreSQL that can be stopped as in a power failure."""

    def stop_at_once(self) -> None:
        """PostgreSQL's immediate shutdown: connections are cut, nothing is flushed first."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(30)


class Group:
    """A supervised process: it is restarted whenever it has ended, unless it is held down."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.name, self.environment = name, dict(environment)
        self._command, self._log = command, log
        self.process = self._started()
        self.held_down = False

    def keep_up(self) -> None:
        if not self.held_down and not self.process.alive:
            self.process = self._started()

    def kill(self) -> None:
        """SIGKILL it and its children."""
        self.process.kill_group()

    def _started(self) -> Process:
        return Process(self.name, self._command, self.environment, self._log)


class Fleet:
    """All processes of one run, in its own directory; nothing of them is left after `close`."""

    def __init__(self, directory: Path, database: str) -> None:
        self.directory = directory
        self.postgres = Postgres(directory / "postgres") if database == "postgres" else None
        self._redis_server = RedisServer(directory / "redis")
        self.proxy = BrokerProxy(self._redis_server.port)
        self.groups: dict[str, Group] = {}
        self.tables = self._tables()
        self.environment = self._environment()

    @property
    def broker_url(self) -> str:
        """The broker itself, not through the proxy."""
        return self._redis_server.url

    def open(self) -> None:
        """Start everything."""
        self._start("redis", *self._redis_server.command)
        wait_for_port(self._redis_server.port)
        if self.postgres:
            self.postgres.start()
        self._migrate()
        for name, pool, slots in (("alpha", "threads", 6), ("beta", "threads", 6),
                                  ("fork", "prefork", 3), ("clock", "threads", 4)):  # fmt: skip
            self._start_worker(name, pool, slots, STEP_QUEUES)
        self._start_worker("housekeeping", "solo", 1, "housekeeping")
        self._start("beat", *self.beat("beat"))
        self.console = Console(self.environment, self.directory / "console.log")
        self._wait_for_workers()

    def beat(self, name: str) -> list[str]:
        """The command of a beat with its own schedule."""
        schedule = str(self.directory / f"{name}-schedule")
        return [*CELERY, "beat", "--schedule", schedule, "--pidfile", "", "-l", "WARNING"]

    def keep_up(self) -> None:
        """Restart what has ended."""
        for group in list(self.groups.values()):
            group.keep_up()

    def start_beside(self, name: str, command: Sequence[str]) -> Process:
        """A process that is not supervised."""
        return Process(name, command, self.environment, self.directory / f"{name}.log")

    def close(self) -> list[str]:
        """End everything; returns what was still running besides, killed too."""
        if hasattr(self, "console"):
            self.console.close()
        for group in reversed(self.groups.values()):
            group.kill()
        if self.postgres:
            self.postgres.stop()
        self.proxy.close()
        return self._kill_leftovers()

    def _kill_leftovers(self) -> list[str]:
        time.sleep(0.5)
        left = [process for process in using(self.directory) if process.pid != os.getpid()]
        named = [f"{process.pid} {process.name()}" for process in left]
        for process in left:
            process.kill()
        return named

    def _start_worker(self, name: str, pool: str, slots: int, queues: str) -> None:
        self._start(
            name, *CELERY, "worker", "-P", pool, "-c", str(slots), "-Q", queues, "-n", f"{name}@%h",
            "-l", "WARNING", "--without-mingle", "--without-gossip",
        )  # fmt: skip

    def _wait_for_workers(self) -> None:
        """Wait until all workers are registered, which is also when the limits get their rows."""
        until = time.monotonic() + START_SECONDS
        while self.tables.rows("SELECT COUNT(*) AS n FROM queuemgr_worker")[0]["n"] < 5:
            if time.monotonic() > until:
                raise TimeoutError(f"not every worker signed on within {START_SECONDS:g} s")
            time.sleep(0.1)

    def _start(self, name: str, *command: str) -> None:
        log = self.directory / f"{name}.log"
        self.groups[name] = Group(name, command, self.environment, log)

    def _tables(self) -> Tables:
        if self.postgres:
            return Tables(url=self.postgres.url.replace("postgres://", "postgresql://"))
        return Tables(file=self.directory / "sluice.sqlite3")

    def _environment(self) -> dict[str, str]:
        real, through = str(self._redis_server.port), str(self.proxy.port)
        path = os.pathsep.join((str(CLOCK), str(REPOSITORY)))
        broker = self.broker_url.replace(f":{real}/", f":{through}/")
        database = {"DATABASE_URL": self.postgres.url} if self.postgres else {}
        config = {f"SLUICE_{name.upper()}": str(value) for name, value in SETTINGS.items()}
        own = {"BROKER_URL": broker, "PYTHONPATH": path, "SLUICE_DATA_DIR": str(self.directory)}
        return {**_inherited(), **config, **database, **own, "SLUICE_LOG_LEVEL": "WARNING"}

    def _migrate(self) -> None:
        subprocess.run(
            [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
            env=self.environment, cwd=REPOSITORY, check=True,
        )  # fmt: skip


def _inherited() -> dict[str, str]:
    """This process's environment, without variables that would point elsewhere."""
    ours = ("SLUICE_", "DATABASE_URL", "BROKER_URL")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}
