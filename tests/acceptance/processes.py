"""Real processes, each in a group of its own, so that a test can kill, freeze and thaw all of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tests.fork_server import REPOSITORY, File, ForkedProcess, ForkServer

Running = subprocess.Popen[bytes] | ForkedProcess


def start(
    command: Sequence[str], environment: Mapping[str, str], files: Sequence[File],
    server: ForkServer | None = None,
) -> Running:  # fmt: skip
    """Start a program in a session of its own with these as standard input, output and error: a Python
    program by the fork server, where there is one, anything else from scratch."""
    program, *arguments = command
    if server and program == sys.executable:
        return server.start(arguments, environment, files)
    stdin, stdout, stderr = (file.fileno() for file in files)
    return subprocess.Popen(
        command, env=dict(environment), cwd=REPOSITORY, stdin=stdin, stdout=stdout, stderr=stderr,
        start_new_session=True,
    )  # fmt: skip


class Process:
    """A running program, its group, and what it printed to `log` (its errors too, unless they have a
    file of their own)."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path,
        server: ForkServer | None = None, errors: Path | None = None,
    ) -> None:  # fmt: skip
        self.name, self.log = name, log
        with open(os.devnull) as nothing, log.open("ab") as out, (errors or log).open("ab") as err:
            self._popen = start(command, environment, [nothing, out, err], server)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def alive(self) -> bool:
        return self._popen.poll() is None

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def signal(self, number: int) -> None:
        """Signal the program alone, as `kill PID` does."""
        self._popen.send_signal(number)

    def freeze(self) -> None:
        """Suspend the whole group; no process in it notices."""
        os.killpg(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)

    def kill_group(self) -> None:
        """`kill -9` of everything in the group, and wait until the program is gone."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait(30)

    def stop(self, within: float = 60) -> int:
        """Ask the program to end, as a supervisor does; returns its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(within)

    def wait(self, within: float) -> int:
        """Wait for the program to end, so many seconds at most; returns its exit code."""
        return self._popen.wait(within)


class Command(Process):
    """A program that is to end by itself; what it prints and its errors go to files of their own."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], directory: Path,
        server: ForkServer | None = None,
    ) -> None:  # fmt: skip
        self._errors = directory / f"{name}.err"
        super().__init__(name, command, environment, directory / f"{name}.out", server, self._errors)

    @property
    def errors(self) -> str:
        """What it printed to its standard error."""
        return self._errors.read_text()

    def end(self, code: int = 0, within: float = 60) -> str:
        """Wait for its end, which must have this exit code; returns what it printed."""
        ended = self.wait(within)
        assert ended == code, f"exit code {ended}: {self.output}{self.errors}"
        return self.output


def using(directory: Path, sessions: Collection[int] = ()) -> Iterator[psutil.Process]:
    """Every process of this machine whose `SLUICE_DATA_DIR` is this directory, or is in one of
    these sessions: of a forked program the machine shows the environment of the fork server."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError):
            ours = os.getsid(process.pid) in sessions
            ours = ours or process.environ().get("SLUICE_DATA_DIR") == str(directory)
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                yield process
