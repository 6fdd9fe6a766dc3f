"""What a run costs in processor time: of workers, database and broker apart.

Rates alone say little where the speed of a machine varies.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import psutil


class Spent(NamedTuple):
    """Seconds, or milliseconds for each execution."""

    worker: float
    database: float
    broker: float

    def since(self, before: Spent, executions: int) -> Spent:
        """Milliseconds for each execution since `before`."""
        return Spent(
            *(1e3 * (now - then) / max(1, executions) for now, then in zip(self, before, strict=True))
        )

    def __str__(self) -> str:
        """As `0.41 + 0.20 + 0.02`."""
        return " + ".join(f"{each:.2f}" for each in self)


COLUMN = "ms of processor each: worker + database + broker"


def spent() -> Spent:
    """Seconds used so far by all descendants of this process, those that ended included."""
    seconds = {"worker": 0.0, "database": 0.0, "broker": 0.0}
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            times = child.cpu_times()
            part = times.user + times.system + times.children_user + times.children_system
            seconds[_role(child.name())] += part
    return Spent(**seconds)


def _role(program: str) -> str:
    if program.startswith("postgres"):
        return "database"
    return "broker" if program.startswith(("valkey", "redis")) else "worker"
