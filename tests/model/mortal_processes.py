"""Processes that die between two of their statements, or lose their connection there.

What a process does runs in this thread. Before a statement that is drawn it dies: nothing of its transaction
stays, as if its session had ended. Transactions begin and commit by statements, too, so that one may die
before and after its commit; and one whose connection breaks may hear of no commit that was made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any
from unittest.mock import patch

from django.db import OperationalError

from queuemgr.base.queue_database import get_connection


class Died(BaseException):
    """A process is gone: nothing catches it."""


LIVES, DIES, IS_CUT_OFF, HEARS_NOTHING = "lives", "dies", "is cut off", "hears nothing"
FATES = (DIES, DIES, IS_CUT_OFF, HEARS_NOTHING)


class Process:
    """Counts the statements of one process; `ended` says that it has died, or that its connection broke."""

    def __init__(
        self, fate: str = LIVES, after: int = 0, meanwhile: Callable[[], object] | None = None
    ) -> None:
        self.fate, self.after, self.meanwhile = fate, after, meanwhile
        self.sent, self.is_away, self.ended = 0, False, False

    def statement(self, execute: Callable[..., Any], *given: Any) -> Any:
        if not self.is_away:
            self._before_next()
        return execute(*given)

    def _before_next(self) -> None:
        self.sent += 1
        if self.sent > self.after and self.meanwhile and _has_no_transaction():
            others, self.meanwhile, self.is_away = self.meanwhile, None, True
            others()
            self.is_away = False
        if self.ended or (self.fate in (DIES, IS_CUT_OFF) and self.sent > self.after):
            self._end()

    def commit(self, real: Callable[[], None]) -> None:
        if self.is_away:
            real()
            return
        try:
            self._before_next()
        except BaseException:
            get_connection().rollback()
            raise
        real()
        if self.fate == HEARS_NOTHING and self.sent > self.after:
            self._end()

    def _end(self) -> None:
        self.ended = True
        if self.fate == DIES:
            raise Died
        raise OperationalError("server closed the connection unexpectedly")


def _has_no_transaction() -> bool:
    there = get_connection()
    return there.autocommit and not there.in_atomic_block


@contextmanager
def process(
    fate: str = LIVES, after: int = 0, meanwhile: Callable[[], object] | None = None
) -> Iterator[Process]:
    """What the block does, a process does whose `fate` comes after so many statements; then, too, others do
    `meanwhile`, where no transaction is open."""
    one, there = Process(fate, after, meanwhile), get_connection()
    real = there.commit
    commit = patch.object(there, "commit", lambda: one.commit(real))
    with commit, there.execute_wrapper(one.statement), suppress(Died):
        try:
            yield one
        except OperationalError:
            if not one.ended:
                raise
    if one.ended and there.vendor == "postgresql":
        there.close()


def drawn(random: Random, *, ends: float, longest: int) -> dict[str, Any]:
    """The fate of a process, which ends with a probability of `ends` within its `longest` statements."""
    fate = random.choice(FATES) if random.random() < ends else LIVES
    return {"fate": fate, "after": random.randrange(longest)}
