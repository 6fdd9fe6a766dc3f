"""Real processes, each in a group of its own, so that a test can kill, freeze and thaw all of it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tests.acceptance.console import REPOSITORY
from tests.patience import patient


class Process:
    """A running program, its group, and what it said."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> None:
        self.name, self.log = name, log
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                command, env=dict(environment), cwd=REPOSITORY, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def alive(self) -> bool:
        return self._popen.poll() is None

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def signal(self, number: int) -> None:
        """Signal the program alone, as `kill PID` does."""
        self._popen.send_signal(number)

    def freeze(self) -> None:
        """Stop the whole group where it stands; nothing in it notices."""
        os.killpg(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)

    def kill_group(self) -> None:
        """`kill -9` of everything in the group, and wait until the program is gone."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait(patient(10))

    def stop(self, within: float = 20) -> int:
        """Ask the program to end, as a supervisor does; returns its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(within)

    def wait(self, within: float) -> int:
        """Wait for the program to end, so many seconds at most; returns its exit code."""
        return self._popen.wait(patient(within))


def using(directory: Path) -> Iterator[psutil.Process]:
    """Every process of this machine that was told to keep its state in this directory."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            told = process.environ().get("SLUICE_DATA_DIR") == str(directory)
            if told and process.status() != psutil.STATUS_ZOMBIE:
                yield process
