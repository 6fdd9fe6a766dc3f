"""Rows that hold clocks by name: locked in a fixed order, made where there are none, and set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from queuemgr.base import sql
from queuemgr.base.queue_database import connection


class Clock(NamedTuple):
    name: str
    clock: float


class Clocks(NamedTuple):
    """Where clocks of one sort are: statements to read, make and set them by name."""

    read: str
    make: str
    set: str

    def lock(self, names: Sequence[str]) -> dict[str, float]:
        """The clocks of these names, in a fixed order of locks, made where there are none."""
        if not names:
            return {}
        lock = " FOR UPDATE" if connection.features.has_select_for_update else ""
        statement = self.read.format(names=sql.marks(len(names))) + lock
        clocks = {row.name: row.clock for row in sql.rows(Clock, statement, names)}
        if missing := sorted(set(names) - clocks.keys()):
            sql.run_each(self.make, [(name,) for name in missing])
            return self.lock(names)
        return clocks

    def write(self, clocks: Mapping[str, float], names: Sequence[str]) -> None:
        if names:
            sql.run_each(self.set, [(clocks[name], name) for name in names])
