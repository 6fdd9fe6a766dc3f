"""Has a process fork only while none of its other threads uses a SQLite connection.

SQLite notes in the memory of a process which locks of a file that process holds. A child forked while a
thread of its parent is in a transaction inherits the note and not the thread, and would wait for that lock
for ever (https://www.sqlite.org/howtocorrupt.html, "carrying an open database file across a fork").
PostgreSQL keeps its locks in the server: there the gate stays open.
"""

from __future__ import annotations

import logging
import os
import threading

logger = logging.getLogger(__name__)

WAIT_SECONDS = 30.0
"""How long a fork waits for threads that use a connection, and they for a fork; then they go on."""


class ForkGate:
    """Threads pass it to use a connection; while one of them forks, nobody else is inside."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside: set[int] = set()
        self._forking: int | None = None

    def enter(self) -> None:
        own = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._forking in (None, own), WAIT_SECONDS)
            self._inside.add(own)

    def leave(self) -> None:
        with self._changed:
            self._inside.discard(threading.get_ident())
            self._changed.notify_all()

    def before_fork(self) -> None:
        own = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._forking in (None, own), WAIT_SECONDS)
            self._forking = own
            if not self._changed.wait_for(lambda: self._inside <= {own}, WAIT_SECONDS):
                logger.warning("this process forks while a thread of it uses the database")

    def after_fork(self) -> None:
        """In the parent."""
        with self._changed:
            self._forking = None
            self._changed.notify_all()

    def begin_anew(self) -> None:
        """In the child, which has one thread."""
        self.__init__()  # type: ignore[misc]


_gate: ForkGate | None = None


def install() -> None:
    """For the parent of a pool, before it has threads; once in a process."""
    global _gate
    if _gate is None:
        _gate = ForkGate()
        os.register_at_fork(
            before=_gate.before_fork, after_in_parent=_gate.after_fork, after_in_child=_gate.begin_anew
        )


def enter() -> None:
    if _gate is not None:
        _gate.enter()


def leave() -> None:
    if _gate is not None:
        _gate.leave()
