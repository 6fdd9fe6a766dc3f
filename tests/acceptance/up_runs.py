"""`manage.py up` as a process: any number of runs in one data directory."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.acceptance.databases import Database
from tests.acceptance.fleet import environment
from tests.acceptance.processes import Command, using
from tests.fork_server import ForkServer

STEPS = ["resolve", "fetch", "extract", "analyse", "report"]


class Run(Command):
    """One `manage.py up …` without a terminal, under way or ended, and what it has printed so far."""

    @property
    def lines(self) -> list[str]:
        return self.output.splitlines()

    @property
    def error_lines(self) -> list[str]:
        return self.errors.splitlines()

    @property
    def code(self) -> int:
        """The exit code, once it has ended."""
        return self.wait(within=180)

    @property
    def table(self) -> dict[str, list[str]]:
        """The cells of the table of results, by document."""
        lines = self.lines
        head = next(n for n, line in enumerate(lines) if line.startswith("document "))
        starts = [match.start() for match in re.finditer(r"\S+", lines[head])]
        rows = {}
        for line in lines[head + 1 :]:
            cells = [line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
            if not cells[0].endswith(".pdf"):
                break
            rows[cells[0]] = cells[1:]
        return rows

    def printed(self, pattern: str) -> re.Match[str] | None:
        """The first line that holds this pattern."""
        return next(filter(None, (re.search(pattern, line) for line in self.lines)), None)

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.signal(signal.SIGINT)


@dataclass
class Home:
    """One data directory and its database, for any number of runs."""

    directory: Path
    database: Database
    runs: list[Run] = field(default_factory=list)

    def up(self, *arguments: object, server: ForkServer | None = None, **variables: str) -> Run:
        environ = {**environment(self.directory, self.database), **variables}
        environ.pop("PYTHONUNBUFFERED", None)
        command = (sys.executable, "manage.py", "up", *map(str, arguments))
        name = f"up-{len(self.runs) + 1}"
        self.runs.append(Run(name, command, environ, self.directory, server))
        return self.runs[-1]

    def attempts(self) -> list[tuple[str, str, str]]:
        """Key, step and outcome of each, in order."""
        return self.database.rows(
            "SELECT e.key, a.step, a.outcome FROM queuemgr_attempt a "
            "JOIN queuemgr_execution e ON e.id = a.execution_id ORDER BY a.id"
        )

    def states(self) -> Counter[str]:
        return Counter(s for (s,) in self.database.rows("SELECT state FROM queuemgr_execution"))

    def left_running(self) -> list[str]:
        """Programs still there that keep their state in this directory."""
        return [program.name() for program in self._programs()]

    def _programs(self) -> Iterator[psutil.Process]:
        """By their environment; the broker, which overwrites its own, by its directory."""
        yield from using(self.directory, {run.pid for run in self.runs})
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if Path(process.cwd()) == self.directory / "redis":
                    yield process

    def close(self) -> None:
        """Kill what a failed test left running, and what is started in its place meanwhile."""
        while left := list(self._programs()):
            for program in left:
                with suppress(psutil.Error):
                    program.kill()
            time.sleep(0.1)
        for run in self.runs:
            run.wait(within=60)
        self.database.drop()


MakeHome = Callable[[], Home]
