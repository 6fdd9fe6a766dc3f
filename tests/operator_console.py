"""An operator's process beside a fleet, since starting Django for each command is slow: a JSON list in for
each command, a JSON list out."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.acceptance.processes import start
from tests.fork_server import ForkServer


class OperatorConsole:
    """The process, as it is used from outside; one command at a time."""

    def __init__(
        self, program: str, environment: Mapping[str, str], log: Path, server: ForkServer | None = None
    ) -> None:
        self._turn = threading.Lock()
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", program]
        with ours, theirs, log.open("ab") as errors:
            self._lines = ours.makefile("rw")
            self._running = start(command, environment, [theirs, theirs, errors], server)

    @property
    def pid(self) -> int:
        return self._running.pid

    def ask(self, *command: Any) -> Any:
        """The answer to a command."""
        with self._turn:
            self._lines.write(json.dumps(command) + "\n")
            self._lines.flush()
            return json.loads(self._lines.readline())

    def close(self) -> None:
        self._running.kill()
        self._running.wait()
        self._lines.close()


def serve(answer: Callable[..., object]) -> None:
    """Be that process: answer the commands on standard input."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
    for line in sys.stdin:
        print(json.dumps(answer(*json.loads(line))), flush=True)
