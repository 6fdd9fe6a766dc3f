"""`manage.py …` in processes of their own, which know nothing of this test run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.fork_server import ForkServer, PipedProcess

TOLD_BY_THE_RUN = ("BROKER_URL", "DATABASE_URL", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "TERM")


def alone(directory: Path, **variables: str) -> dict[str, str]:
    """The environment of a process with state of its own in this directory."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    for name in TOLD_BY_THE_RUN:
        kept.pop(name, None)
    return {**kept, "SLUICE_DATA_DIR": str(directory), **variables}


class Shell:
    """Runs commands: `shell(directory, "queue", "stats", SLUICE_SLOTS="2").stdout`."""

    def __init__(self, server: ForkServer) -> None:
        self.server = server

    def __call__(self, directory: Path, *args: object, **variables: str) -> subprocess.CompletedProcess[str]:
        started = self.start(directory, *args, **variables)
        out, err = started.communicate(timeout=180)
        code = started.process.wait()
        return subprocess.CompletedProcess(args, code, out.decode(), err.decode())

    def start(self, directory: Path, *args: object, **variables: str) -> PipedProcess:
        return self.server.start_piped(["manage.py", *map(str, args)], alone(directory, **variables))
