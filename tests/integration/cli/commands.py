"""Running a command of ours as a test: in this process, or in one of its own."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.management import CommandError, call_command

REPOSITORY = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Said:
    """What a command wrote, how it ended, and its complaint."""

    out: str
    code: int = 0
    complaint: str = ""

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def records(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


def run(name: str, *arguments: object) -> Said:
    """Run a command of ours to its end, in this process, whose signals stay its own."""
    with _signals_kept():
        return _run(name, *arguments)


@contextmanager
def _signals_kept() -> Iterator[None]:
    heard = (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)
    handlers = {number: signal.getsignal(number) for number in heard}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _run(name: str, *arguments: object) -> Said:
    out = io.StringIO()
    try:
        call_command(name, *map(str, arguments), stdout=out)
    except CommandError as error:
        return Said(out.getvalue(), error.returncode, str(error))
    except SystemExit as ended:
        return Said(out.getvalue(), int(ended.code or 0))
    return Said(out.getvalue())


def queue(*arguments: object) -> Said:
    return run("queue", *arguments)


def alone(directory: Path, **variables: str) -> dict[str, str]:
    """The environment of a process with state of its own, told nothing of this test run."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
    for name in ("BROKER_URL", "DATABASE_URL", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"):
        kept.pop(name, None)
    return {**kept, "SLUICE_DATA_DIR": str(directory), **variables}


def shell(directory: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`python manage.py …` in a process of its own, with state of its own."""
    return subprocess.run(
        [sys.executable, "manage.py", *words], cwd=REPOSITORY, text=True, capture_output=True,
        env=alone(directory, **variables), timeout=180, check=False,
    )  # fmt: skip
