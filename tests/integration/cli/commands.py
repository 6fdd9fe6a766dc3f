"""Running a command of ours as a test: in this process, or in one of its own."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.management import CommandError, call_command

REPOSITORY = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Result:
    """What a command printed, its exit code, and its error message."""

    out: str
    code: int = 0
    error: str = ""

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def records(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


def run(name: str, *arguments: object) -> Result:
    """Run a command of ours to its end, in this process, whose signals stay its own."""
    with _signals_kept():
        return _run(name, *arguments)


@contextmanager
def _signals_kept() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)
    handlers = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _run(name: str, *arguments: object) -> Result:
    out = io.StringIO()
    try:
        call_command(name, *map(str, arguments), stdout=out)
    except CommandError as error:
        return Result(out.getvalue(), error.returncode, str(error))
    except SystemExit as ended:
        return Result(out.getvalue(), int(ended.code or 0))
    return Result(out.getvalue())


def queue(*arguments: object) -> Result:
    return run("queue", *arguments)
