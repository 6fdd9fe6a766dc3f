"""How a child process ended, and whether for lack of memory: C++ libraries abort when they get none."""

from __future__ import annotations

import os
import resource
import signal as signals
import subprocess
import sys
from contextlib import suppress
from typing import Any, NamedTuple

LARGE_PART = 1 / 4
"""A child that aborts having held so much of its memory ran out of it: what grows by doubling fails with a
third."""

UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in which the system counts the most memory of a process."""


class Ended(NamedTuple):
    """The exit status, a signal's number negative, and the most bytes that were held; 0 if unknown."""

    status: int
    most_bytes: int = 0

    def ran_out_of(self, memory_bytes: int) -> bool:
        return self.status == -signals.SIGABRT and self.most_bytes >= LARGE_PART * memory_bytes

    @property
    def name(self) -> str:
        """`SIGABRT` for a process killed by a signal, `exit 3` for one that exited."""
        with suppress(ValueError):
            return signals.Signals(-self.status).name
        return f"exit {self.status}"


class ChildProcess(subprocess.Popen[bytes]):
    """A process of which is known how it ended."""

    _ended: Ended | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # The system counts what we held as the child's, from before it became a program of its own.
        self._ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT

    def ended(self) -> Ended:
        """Wait for its end, however often it is asked for."""
        if self._ended is None:
            ended = waited_for(self.pid)
            self._ended = ended if ended.most_bytes > self._ours else ended._replace(most_bytes=0)
            self.returncode = self._ended.status
        return self._ended


def waited_for(pid: int) -> Ended:
    """The end of a child of this process, which is not waited for twice."""
    _, status, usage = os.wait4(pid, 0)
    return Ended(os.waitstatus_to_exitcode(status), usage.ru_maxrss * UNIT)
