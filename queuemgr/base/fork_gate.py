"""Has a process fork only while none of its threads uses a SQLite connection, and none has one open.

SQLite notes in the memory of a process which locks of a file that process holds. A child forked while a
thread of its parent is in a transaction inherits the note and not the lock: it would wait for the end of that
transaction for ever. One forked while a connection of its parent is merely open takes the file for locked by
itself; the parent, closing its last connection, then deletes the log that the child writes to, and what the
child committed is lost (https://www.sqlite.org/howtocorrupt.html, "carrying an open database file across a
fork"). PostgreSQL keeps its locks in the server: there the gate stays open.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger(__name__)

WAIT_SECONDS = 30.0
"""How long a fork waits for threads that use a connection, and they for a fork; then they continue."""


class ForkGate:
    """Threads pass it to use a connection; while one of them forks, nobody else is inside.

    `forks_often`: of the parent of a pool, whose threads leave no connection open when they are outside.
    """

    def __init__(self, *, forks_often: bool = False) -> None:
        self.forks_often = forks_often
        self._changed = threading.Condition()
        self._inside = Counter[int]()  # how often each thread has entered and not left
        self._forking: int | None = None

    def enter(self) -> None:
        own = threading.get_ident()
        with self._changed:
            if own not in self._inside:  # who is inside is waited for: it must not wait in turn
                self._changed.wait_for(lambda: self._forking in (None, own), WAIT_SECONDS)
            self._inside[own] += 1

    def leave(self) -> None:
        own = threading.get_ident()
        with self._changed:
            self._inside[own] -= 1
            if self._inside[own] <= 0:
                del self._inside[own]
            self._changed.notify_all()

    def before_fork(self) -> None:
        own = threading.get_ident()
        with self._changed:
            if own in self._inside or _is_in_transaction():
                return  # others inside may wait for the lock that it holds
            self._changed.wait_for(lambda: self._forking in (None, own), WAIT_SECONDS)
            self._forking = own
            if self.forks_often:
                _close_own()
            if not self._changed.wait_for(lambda: not self._inside, WAIT_SECONDS):
                logger.warning("this process forks while a thread of it uses the database")

    def after_fork(self) -> None:
        """In the parent."""
        with self._changed:
            if self._forking == threading.get_ident():
                self._forking = None
                self._changed.notify_all()

    def begin_anew(self) -> None:
        """In the child, which has one thread."""
        self.__init__()  # type: ignore[misc]  # of this very class


def _is_in_transaction() -> bool:
    return any(getattr(each.connection, "in_transaction", False) for each in _of_sqlite())


def _close_own() -> None:
    for each in _of_sqlite():
        each.close()


def _of_sqlite() -> list[BaseDatabaseWrapper]:
    """The connections to SQLite of this thread."""
    return [each for each in connections.all(initialized_only=True) if each.vendor == "sqlite"]


_gate: ForkGate | None = None


def install(*, forks_often: bool) -> None:
    """For a worker, before it has threads; once in a process."""
    global _gate
    if _gate is None:
        _gate = ForkGate(forks_often=forks_often)
        os.register_at_fork(
            before=_gate.before_fork, after_in_parent=_gate.after_fork, after_in_child=_gate.begin_anew
        )


def enter() -> None:
    if _gate is not None:
        _gate.enter()


def leave() -> None:
    if _gate is not None:
        _gate.leave()


def forks_often() -> bool:
    """Whether this is the parent of a pool of processes that use SQLite."""
    return _gate is not None and _gate.forks_often


@contextmanager
def passed() -> Iterator[None]:
    """Around what uses a connection; blocks nest."""
    enter()
    try:
        yield
    finally:
        leave()
