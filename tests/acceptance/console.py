"""`manage.py queue …` again and again in one process: tests say much, and starting Django is slow.

Run as a program it is that process: a JSON list of arguments per line in, `[exit code, output]` out.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

from tests.acceptance.processes import start
from tests.fork_server import ForkServer


class Console:
    """An operator's shell beside a fleet."""

    def __init__(self, environment: Mapping[str, str], log: Path, server: ForkServer | None = None) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "tests.acceptance.console"]
        with ours, theirs, log.open("ab") as errors:
            self._lines = ours.makefile("rw")
            self._running = start(command, environment, [theirs, theirs, errors], server)

    @property
    def pid(self) -> int:
        return self._running.pid

    def queue(self, *arguments: str) -> tuple[int, str]:
        """Run `queue …`; returns its exit code and what it printed."""
        self._lines.write(json.dumps(arguments) + "\n")
        self._lines.flush()
        code, printed = json.loads(self._lines.readline())
        return int(code), str(printed)

    def close(self) -> None:
        self._running.kill()
        self._running.wait()
        self._lines.close()


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
    for line in sys.stdin:
        print(json.dumps(_run(json.loads(line))), flush=True)


def _run(arguments: list[str]) -> tuple[int, str]:
    from django.core.management import CommandError, call_command

    out = StringIO()
    try:
        call_command("queue", *arguments, stdout=out)
    except CommandError as error:
        return error.returncode, f"{out.getvalue()}{error}"
    except SystemExit as stop:
        return int(stop.code or 0), out.getvalue()
    return 0, out.getvalue()


if __name__ == "__main__":
    main()
