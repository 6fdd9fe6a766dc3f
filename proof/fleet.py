"""The fleet under proof: broker, database, worker groups and beat, each a real process that is restarted
when it ends, as a supervisor does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from proof import machine
from proof.console import Console
from proof.hosts import BROKER, DATABASE, Hosts, ManyHosts, OneHost
from proof.kinds import LEASE_SECONDS, WORKERS
from proof.leftovers import remove
from proof.plan import LIMIT_VALUES
from proof.servers import POOLER, BrokerLink, Pooler, Postgres, Redis, wait_for_address
from proof.tables import Tables
from proof.wall_clock import WallClock
from tests.acceptance.fleet import STEP_QUEUES
from tests.acceptance.processes import Process
from tests.fork_server import REPOSITORY

SETTINGS = {
    "lease_seconds": LEASE_SECONDS, "heartbeat_seconds": 2, "poll_interval": 0.5, "stale_interval": 5,
    "shutdown_grace": 2, "seed_interval": 0, "slot_handover_seconds": 3, "allow_private_addresses": True,
    "max_workers": LIMIT_VALUES["fleet"]["max_running"],
    "high_priority_reserved": LIMIT_VALUES["fleet"]["reserved_high"],
    "daily_budget": LIMIT_VALUES["fleet"]["daily_budget"],
    "max_prep": LIMIT_VALUES["phase:prep"]["max_running"],
    "max_expensive": LIMIT_VALUES["phase:expensive"]["max_running"],
    "max_wrap": LIMIT_VALUES["phase:wrap"]["max_running"],
    "max_per_host": LIMIT_VALUES["host:*"]["max_running"],
}  # fmt: skip
"""Short leases, so that recovery from faults can be watched, and messages are frequent."""

POOLED = "beta"
"""The worker that reaches the database through PgBouncer; the others do too if a run asks for it."""

START_SECONDS = 60.0
DISK_MEGABYTES = 320
"""The size of the database's own file system, where one may be mounted."""

CLOCK = Path(__file__).parent / "shifted_clock"
CELERY = (sys.executable, "-W", "ignore", "-m", "celery", "-A", "project")
POOLS = (("alpha", "threads", 6), ("beta", "threads", 6), ("fork", "prefork", 3), ("clock", "threads", 4))


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

    def ask_to_end(self) -> None:
        """SIGTERM to the program itself: in a box that is the first process inside."""
        with suppress(ProcessLookupError, psutil.Error):
            outer = psutil.Process(self.process.pid)
            inner = outer.children() if outer.name() == "unshare" else []
            (inner or [outer])[0].send_signal(signal.SIGTERM)

    def _started(self) -> Process:
        return Process(self.name, self._command, self.environment, self._log)


class Pooling(NamedTuple):
    """Which mode PgBouncer is in, and whether everyone goes through it or one worker."""

    mode: str
    everyone: bool


class Fleet:
    """All processes of one run, in its own directory; nothing of them is left after `close`."""

    def __init__(self, directory: Path, database: str, able: set[str], pooling: Pooling) -> None:
        self.directory, self.able, self._pooling = directory, able, pooling
        self.clock = WallClock(directory)
        self.hosts: Hosts = _hosts(able)
        self.disk = self._disk()
        self.postgres = self._postgres() if database == "postgres" else None
        self._pooler = self._new_pooler()
        self._redis_server = Redis(directory / "redis", self.hosts)
        self.broker = BrokerLink(self._redis_server, self.hosts, WORKERS)
        self.groups: dict[str, Group] = {}
        self.operators: list[int] = []
        self.tables = self._tables()
        self.environment = self._environment()

    def address_of_sessions(self, name: str) -> str:
        """From where the sessions of a worker reach the database."""
        pooled = self._pooler and (self._pooling.everyone or name == POOLED)
        return self.hosts.address(DATABASE if pooled else name)

    @property
    def broker_url(self) -> str:
        """The broker itself, not through the proxy."""
        return self._redis_server.url

    def open(self) -> None:
        """Start everything."""
        self._start("redis", self._redis_server.command)
        wait_for_address(self._redis_server.address, self._redis_server.port)
        if self.postgres:
            self.postgres.start()
        if self.postgres and self._pooler:
            self._start(POOLER, self._pooler.command)
            wait_for_address(self.postgres.address, self._pooler.port)
        self._migrate()
        for name, pool, slots in POOLS:
            command = [*self.hosts.worker(name), *worker(name, pool, slots, STEP_QUEUES)]
            self._start(name, command, **self._pooler_settings(name == POOLED))
        self._start("housekeeping", worker("housekeeping", "solo", 1, "housekeeping"))
        self._start("beat", self.beat("beat"))
        self.console = self.new_console("console")
        self._wait_for_workers()

    def new_console(self, name: str) -> Console:
        """A process of an operator."""
        console = Console(self.environment, self.directory / f"{name}.log")
        self.operators.append(console.pid)
        return console

    def beat(self, name: str) -> list[str]:
        """The command of a beat with its own schedule."""
        schedule = str(self.directory / f"{name}-schedule")
        return [*CELERY, "beat", "--schedule", schedule, "--pidfile", "", "-l", "WARNING"]

    def keep_up(self) -> None:
        """Restart what has ended."""
        for group in list(self.groups.values()):
            group.keep_up()

    def start_supervised(self, name: str, command: Sequence[str]) -> Group:
        """One more process that is restarted when it ends."""
        self._start(name, command)
        return self.groups[name]

    def restart_with(self, **settings: object) -> None:
        """Have every worker and beat end and start again with these settings changed."""
        newest = self._newest_worker()
        for name in (*WORKERS, "housekeeping", "beat"):
            self.groups[name].environment |= {f"SLUICE_{key.upper()}": str(v) for key, v in settings.items()}
            self.groups[name].ask_to_end()
        self._wait_for_workers(newest)

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
            self.postgres.thaw()
            self.postgres.stop()
        self.broker.close()
        self.hosts.close()
        time.sleep(0.5)
        return remove(self.directory)

    def _wait_for_workers(self, newest: int = 0) -> None:
        """Wait until all workers are registered, which is also when the limits get their rows; those whose
        rows are older than that are on their way out."""
        until = time.monotonic() + START_SECONDS
        names = f"SELECT DISTINCT name FROM queuemgr_worker WHERE id > {newest}"
        while len(self.tables.rows(names)) < len(POOLS) + 1:
            if time.monotonic() > until:
                raise TimeoutError(f"not every worker signed on within {START_SECONDS:g} s")
            self.keep_up()
            time.sleep(0.1)

    def _newest_worker(self) -> int:
        return int(self.tables.rows("SELECT COALESCE(MAX(id), 0) AS n FROM queuemgr_worker")[0]["n"])

    def _start(self, name: str, command: Sequence[str], **changed: str) -> None:
        log = self.directory / f"{name}.log"
        self.groups[name] = Group(name, command, {**self.environment, **changed}, log)

    def _disk(self) -> Path:
        """Where the database keeps its files: a small file system of its own, if the machine permits that."""
        disk = self.directory / "disk"
        disk.mkdir(mode=0o755)
        if "mounts" in self.able and not machine.mount(disk, DISK_MEGABYTES):
            self.able.discard("mounts")
        return disk

    def _postgres(self) -> Postgres:
        owner = {"SLUICE_DATA_DIR": str(self.directory)}
        return Postgres(self.disk / "postgres", self.hosts, {**self.clock.environment, **owner})

    def _tables(self) -> Tables:
        if self.postgres:
            return Tables(url=self.postgres.url.replace("postgres://", "postgresql://"))
        return Tables(file=self.disk / "sluice.sqlite3")

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join((str(CLOCK), str(REPOSITORY)))
        config = {f"SLUICE_{name.upper()}": str(value) for name, value in SETTINGS.items()}
        own = {"BROKER_URL": self.broker.url, "PYTHONPATH": path, "SLUICE_DATA_DIR": str(self.directory)}
        application = {
            "DJANGO_SETTINGS_MODULE": "proof.application.settings",
            "DATABASE_URL": self._database_url(),
        }
        quiet = {"SLUICE_LOG_LEVEL": "WARNING", "SLUICE_DEFAULT_FLOW": "papers"}
        pooling = self._pooler_settings(self._pooling.everyone)
        clock = self.clock.environment
        return {**_inherited(), **config, **own, **application, **quiet, **pooling, **clock}

    def _new_pooler(self) -> Pooler | None:
        if self.postgres is None or "pooler" not in self.able:
            return None
        return Pooler(self.directory / POOLER, self.postgres, self._pooling.mode, self.hosts)

    def _pooler_settings(self, through_it: bool) -> dict[str, str]:
        return self._pooler.settings if self._pooler and through_it else {}

    def _database_url(self) -> str:
        return self.postgres.url if self.postgres else f"sqlite:///{self.disk}/sluice.sqlite3"

    def _migrate(self) -> None:
        past_the_pooler = {"DATABASE_URL": self.postgres.url} if self.postgres else {}
        subprocess.run(
            [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
            env={**self.environment, **past_the_pooler}, cwd=REPOSITORY, check=True,
        )  # fmt: skip


def _hosts(able: set[str]) -> Hosts:
    return ManyHosts([DATABASE, BROKER, *WORKERS]) if "hosts" in able else OneHost(boxes="boxes" in able)


def worker(name: str, pool: str, slots: int, queues: str) -> list[str]:
    """The command of a worker."""
    return [
        *CELERY, "worker", "-P", pool, "-c", str(slots), "-Q", queues, "-n", f"{name}@%h",
        "-l", "WARNING", "--without-mingle", "--without-gossip",
    ]  # fmt: skip


def _inherited() -> dict[str, str]:
    """This process's environment, without variables that would point elsewhere."""
    ours = ("SLUICE_", "DATABASE_URL", "BROKER_URL")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}
