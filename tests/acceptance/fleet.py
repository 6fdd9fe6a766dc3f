"""A whole fleet for one test: broker, database, workers, beat, commands; all of it real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import psutil
from celery import Celery
from redis import Redis

from queuemgr.local.private_servers import RedisServer, wait_for_port
from tests.acceptance.console import Console
from tests.acceptance.databases import Database
from tests.acceptance.processes import Command, Process, using
from tests.acceptance.trace import Trace
from tests.fork_server import ForkServer

QUICK = {
    "lease_seconds": 10, "heartbeat_seconds": 1, "poll_interval": 0.5, "stale_interval": 5,
    "shutdown_grace": 2,
}  # fmt: skip
"""Settings of a fleet that recovers from faults within seconds; each test may change them."""

STEP_QUEUES = ",".join(f"{phase}.{name}" for phase in ("prep", "expensive", "wrap")
                       for name in ("high", "normal", "low"))  # fmt: skip
ERROR_LINE = re.compile(r"Traceback \(most| (ERROR|CRITICAL) |ERROR/|CRITICAL/|database is locked")
RECORD = re.compile(r"\[?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
"""How a line begins that is not part of the one before."""


def environment(
    directory: Path, database: Database, settings: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """The environment of a process of ours: its data directory and settings, nothing of this test run."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
    for name in ("DATABASE_URL", "BROKER_URL", "PYTHONDONTWRITEBYTECODE"):
        inherited.pop(name, None)
    return {
        **inherited,
        "SLUICE_SEED_INTERVAL": "0",  # the schedule is for the tests that are about it
        **{f"SLUICE_{name.upper()}": str(value) for name, value in (settings or {}).items()},
        **database.environment,
        "CELERY_SKIP_CHECKS": "1",
        "SLUICE_DATA_DIR": str(directory),
    }


P = TypeVar("P", bound=Process)


class Fleet:
    """The processes and the state of one test, gone when it is closed."""

    def __init__(
        self, directory: Path, database: Database, server: ForkServer | None = None, **settings: Any
    ) -> None:
        self.directory, self.database, self._server = directory, database, server
        self.processes: list[Process] = []
        self._redis_server = RedisServer(directory / "redis")
        self.broker_url = self._redis_server.url
        self.environment = {
            **environment(directory, database, {**QUICK, **settings}),
            "BROKER_URL": self.broker_url,
        }
        self._tolerated: list[str] = []
        self.redis_process = self.start_redis()
        self._console = Console(self.environment, self._log("console"), server)
        self._commands = count(1)
        self._dismissed = threading.Event()

    # Starting things

    def start(self, name: str, *command: str) -> Process:
        """Start a program: Python by the fork server, where the fleet has one."""
        return self._started(Process(name, command, self.environment, self._log(name), self._server))

    def start_from_scratch(self, name: str, *command: str) -> Process:
        """Start a program as a shell does, Python and all its imports included."""
        return self._started(Process(name, command, self.environment, self._log(name)))

    def _log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def _started(self, process: P) -> P:
        self.processes.append(process)
        return process

    def start_redis(self) -> Process:
        """Start the broker, on the port it always has."""
        self.redis_process = self.start("redis", *self._redis_server.command)
        wait_for_port(self._redis_server.port)
        return self.redis_process

    def start_worker(
        self, slots: int = 8, pool: str = "threads", queues: str = STEP_QUEUES, *,
        name: str = "worker", options: Sequence[str] = (), wait: bool = True,
    ) -> Process:  # fmt: skip
        """A plain `celery worker`, and wait until it has registered."""
        process = self.start(
            name, sys.executable, "-W", "ignore", "-m", "celery", "-A", "project", "worker", "-P", pool,
            "-c", str(slots), "-Q", queues, "-n", f"{name}@%h", "-l", "INFO", "--without-mingle",
            *options,
        )  # fmt: skip
        if wait:
            self.wait_for_workers(process)
        return process

    def supervise(self, start: Callable[[], Process]) -> Callable[[], bool]:
        """Start a worker; what is returned starts it again if it has ended, as a supervisor does, and
        is always true, so that it can be part of what is waited for."""
        running = [start()]

        def kept_up() -> bool:
            if not running[0].alive:
                running[0] = start()
            return True

        return kept_up

    def start_housekeeping(self) -> Process:
        """The worker that does what beat sends."""
        return self.start_worker(1, "solo", "housekeeping", name="housekeeping", wait=False)

    def start_beat(self, name: str = "beat") -> Process:
        return self.start(
            name, sys.executable, "-m", "celery", "-A", "project", "beat",
            "--schedule", str(self.directory / f"{name}-schedule"), "--pidfile", "",
        )  # fmt: skip

    def wait_for_workers(self, *workers: Process) -> None:
        """Wait until these workers have registered and take work from the broker."""
        self.wait_until(
            f"{', '.join(w.name for w in workers)} ready",
            lambda: all("ready." in worker.output for worker in workers),
        )

    def freeze_at_rest(self, process: Process) -> None:
        """Freeze it, but not in the middle of a transaction: other tests cover what that blocks."""
        process.freeze()
        while not self.database.at_rest():
            process.thaw()
            time.sleep(0.05)
            process.freeze()

    # Commands

    def start_command(self, *arguments: str) -> Command:
        """`manage.py queue …` as a process of its own, under way."""
        return self.start_program("command", "manage.py", "queue", *arguments)

    def start_program(self, name: str, *arguments: str) -> Command:
        """A Python program that is to end by itself, under way."""
        name = f"{name}-{next(self._commands)}"
        words = (sys.executable, *arguments)
        return self._started(Command(name, words, self.environment, self.directory, self._server))

    def command(self, *arguments: str, code: int = 0, within: float = 60) -> str:
        """Run `manage.py queue …` to its end, which must be this exit code; returns what it printed."""
        return self.start_command(*arguments).end(code, within)

    def queue(self, *arguments: str) -> str:
        """`manage.py queue …` in the console, which saves the time Django needs to start."""
        code, output = self._console.queue(*arguments)
        assert code == 0, f"exit code {code}: {output}"
        return output

    def enqueue(self, count: int = 1, **options: Any) -> str:
        """`queue enqueue --flow probe …`; options as on its command line, underscored."""
        return self.queue(*probes(count, **options))

    def stats(self) -> dict[str, Any]:
        return dict(json.loads(self.queue("stats", "--json")))

    def attempts(self, *options: str) -> list[dict[str, Any]]:
        output = self.queue("attempts", "--json", *options)
        return [json.loads(line) for line in output.splitlines()]

    # Looking

    @property
    def trace_file(self) -> Path:
        return self.directory / "trace.jsonl"

    def trace(self) -> Trace:
        return Trace.read(self.trace_file)

    def under_way(self) -> int:
        """How many probes have written their first line and not yet their last."""
        return len(self.trace().unended()) if self.trace_file.exists() else 0

    def redis(self) -> Redis:
        """A client of the broker."""
        return Redis.from_url(self.broker_url, socket_timeout=5)

    def celery(self) -> Celery:
        """A Celery application of someone else's, on this fleet's broker."""
        app = Celery("bystander", broker=self.broker_url, set_as_current=False)
        app.conf.broker_connection_retry_on_startup = True
        app.close()  # of nobody in this process: it works on, but is not among its applications
        return app

    def states(self, like: str = "%") -> Counter[str]:
        """How many executions whose key is like this are in each state."""
        rows = self.database.rows(
            "SELECT state, COUNT(*) FROM queuemgr_execution WHERE key LIKE %s GROUP BY state", like
        )
        return Counter(dict(rows))

    def outcomes(self, like: str = "%") -> Counter[str]:
        """How many attempts of executions whose key is like this ended in each way."""
        rows = self.database.rows(
            "SELECT a.outcome, COUNT(*) FROM queuemgr_attempt a "
            "JOIN queuemgr_execution e ON e.id = a.execution_id WHERE e.key LIKE %s GROUP BY a.outcome",
            like,
        )
        return Counter(dict(rows))

    def one(self, statement: str, *parameters: Any) -> Any:
        """The one value a query gives."""
        return self.database.rows(statement, *parameters)[0][0]

    def wait_until(self, what: str, true: Callable[[], object], within: float = 60) -> None:
        """Wait until this holds, or fail with the state of the fleet."""
        deadline = time.monotonic() + within
        while not true():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {within:g} s: {what}\n{self.describe()}")
            time.sleep(0.05)

    def wait_until_done(self, count: int, like: str = "%", within: float = 90) -> None:
        self.wait_until(f"{count} done", lambda: self.states(like)["done"] == count, within)

    def describe(self) -> str:
        """The state of the fleet, for a person who reads why a test failed."""
        tails = (f"--- {p.name}, alive: {p.alive}\n{p.output[-1500:]}" for p in self.processes[1:])
        return "\n".join([str(dict(self.states())), str(dict(self.outcomes())), *tails])

    def tolerate(self, *patterns: str) -> None:
        """Allow errors that this test causes in the logs of our processes."""
        self._tolerated += patterns

    def logged_errors(self) -> list[str]:
        """Errors our processes logged, but for those tolerated: a fleet that works logs none. The traceback
        of a tolerated one is part of it."""
        logs = [*self.directory.glob("*.log"), *self.directory.glob("log/*.log")]
        return [line for log in logs for line in self._errors_of(log.read_text(errors="replace"))]

    def _errors_of(self, log: str) -> Iterator[str]:
        tolerated = False
        for line in log.splitlines():
            if begins := RECORD.match(line):
                tolerated = False
            if ERROR_LINE.search(line) and not tolerated:
                if not any(re.search(pattern, line) for pattern in self._tolerated):
                    yield line
                elif begins:
                    tolerated = True

    # Faults

    def enlist_nobody(self, *queues: str, slots: int) -> None:
        """Register a live worker of these queues without a process, and keep its heartbeat: messages are
        sent, and stay in the broker."""
        now = str(datetime.now(UTC).replace(tzinfo=None))
        self.database.run(
            "INSERT INTO queuemgr_worker (name, host, pid, queues, slots, started_at, seen_at) "
            "VALUES ('nobody', 'nowhere', 1, %s, %s, %s, %s)",
            json.dumps(queues), slots, now, now,
        )  # fmt: skip
        self._dismissed.clear()
        threading.Thread(target=self._keep_nobody, daemon=True).start()

    def _keep_nobody(self) -> None:
        while not self._dismissed.wait(0.5):
            now = str(datetime.now(UTC).replace(tzinfo=None))
            self.database.run("UPDATE queuemgr_worker SET seen_at = %s WHERE name = 'nobody'", now)

    def dismiss_nobody(self) -> None:
        self._dismissed.set()
        self.database.run("DELETE FROM queuemgr_worker WHERE name = 'nobody'")

    # Ending

    def close(self) -> list[psutil.Process]:
        """Kill what this test started; returns what else it left running, killed too."""
        self._dismissed.set()
        self._console.close()
        for process in reversed(self.processes):
            process.kill_group()
        # A killed group's members die one after another: what is left is judged a moment later.
        sessions = {self._console.pid, *(process.pid for process in self.processes)}
        left = [process for process in using(self.directory, sessions) if process.pid != os.getpid()]
        _, left = psutil.wait_procs(left, timeout=10)
        for survivor in left:
            survivor.send_signal(signal.SIGKILL)
        self.database.drop()
        return left


def probes(count: int, **options: Any) -> list[str]:
    """The command line that enqueues so many probes."""
    pairs = [("--" + name.replace("_", "-"), value) for name, value in options.items()]
    flags = [part for name, value in pairs for part in ([name] if value is True else [name, str(value)])]
    return ["enqueue", "--flow", "probe", "--count", str(count), *flags]
