"""What the parent of a prefork pool knows of its children: the lease each one runs, kept in shared memory.

A child that is killed (by the kernel for its memory, by a fault, by `os._exit()` in a step) can end nothing
itself. Its parent sees it within a fraction of a second, and ends the lease with the true cause. It kills a
child whose step ignores its time limit. Nothing here needs the child's interpreter to run.
"""

from __future__ import annotations

import logging
import math
import mmap
import os
import signal
import struct
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple
from uuid import UUID

import psutil
from django.db import DatabaseError

from queuemgr.base import process_state, sql
from queuemgr.base.db_connection import database
from queuemgr.flows.outcomes import Failed, Lost
from queuemgr.lifecycle import finish, redispatch_timer
from queuemgr.worker import background_thread, lost_leases

logger = logging.getLogger(__name__)

PLACES = 1024
"""Most children at once, those included that died and whose leases the parent has not ended yet."""

LOOK_SECONDS = 0.2
KILL_AFTER = 0.5
"""Seconds beyond the time limit: the child may be about to store its result."""

_PLACE = struct.Struct("=qQQdd")
"""Process id, the lease's 128 bits, when its time limit ends (monotonic clock) and the limit in seconds."""


class Running(NamedTuple):
    """The lease a child runs, when its time limit ends (monotonic clock, shared by all processes of a
    machine), and that limit in seconds."""

    pid: int
    lease_id: UUID
    ends_at: float
    limit: float


class Board:
    """Shared memory with a place for each child: that child writes there, and its parent when it is gone."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, PLACES * _PLACE.size)

    def take_place(self) -> int:
        """The place of this process: one whose process is gone and left no lease behind."""
        own = os.getpid()
        for offset in range(PLACES):
            place = (own + offset) % PLACES
            pid, high, low, _, _ = self._read(place)
            if pid == 0 or (not (high or low) and not psutil.pid_exists(pid)):
                self._write(place, own, 0, math.inf, math.inf)
                return place
        raise RuntimeError(
            "no place is free: the parent of this pool does not end the leases of dead children"
        )

    def set(self, place: int, lease_id: UUID | None, seconds: float = math.inf) -> None:
        """Say which lease this process runs from now on, for at most so many seconds; None: none."""
        number = lease_id.int if lease_id else 0
        self._write(place, os.getpid(), number, time.monotonic() + seconds, seconds)

    def running(self) -> Iterator[tuple[int, Running]]:
        """The places of children that run a lease, or died with one."""
        for place in range(PLACES):
            pid, high, low, ends_at, limit = self._read(place)
            if high or low:
                yield place, Running(pid, UUID(int=(high << 64) | low), ends_at, limit)

    def at(self, place: int) -> Running | None:
        return next((running for found, running in self.running() if found == place), None)

    def clear(self, place: int) -> None:
        """Free the place of a child that is gone."""
        self._write(place, 0, 0, 0.0, 0.0)

    def _read(self, place: int) -> Any:
        return _PLACE.unpack_from(self._memory, place * _PLACE.size)

    def _write(self, place: int, pid: int, number: int, ends_at: float, limit: float) -> None:
        high, low = number >> 64, number & (2**64 - 1)
        _PLACE.pack_into(self._memory, place * _PLACE.size, pid, high, low, ends_at, limit)


_board: Board | None = None
_place: int | None = None


def _reset() -> None:
    global _board, _place
    _board, _place = None, None


process_state.register(_reset)


def make_board() -> None:
    """Called in the parent before it forks."""
    global _board
    _board = Board()


def join_board() -> None:
    """Called in each child."""
    global _place
    if _board is not None:
        _place = _board.take_place()


def hard_limit_text(seconds: float) -> str:
    return f"it ran longer than its time limit of {seconds:g} s, and did not stop"


def show_storing(lease_id: UUID, seconds: float) -> None:
    """In a child: its store runs, for at most so many seconds."""
    if _board is not None and _place is not None:
        _board.set(_place, lease_id, seconds)


def show_ending(lease_id: UUID) -> None:
    """In a child: the step has returned and its result is being stored, for which there is no limit."""
    if _board is not None and _place is not None:
        _board.set(_place, lease_id)


def show_idle() -> None:
    """In a child: it runs no lease, though something escaped while it did; that lease has ended."""
    if _board is not None and _place is not None:
        _board.set(_place, None)


@contextmanager
def shown(lease_id: UUID, seconds: float) -> Iterator[None]:
    """In a child: let the parent know that this lease runs, for at most so many seconds."""
    if _board is None or _place is None:
        yield
        return
    _board.set(_place, lease_id, seconds)
    yield
    _board.set(_place, None)  # not when it raises: then this process ends, and its parent ends the lease


class ChildWatch:
    """In the parent: ends the leases of children that are gone, and kills those that exceed a time limit.

    `processes` are the pool's, with their exit codes. What cannot be stored while the database is away is
    tried again.
    """

    def __init__(self, board: Board, processes: list[Any]) -> None:
        self._board, self._processes = board, processes
        self._known: OrderedDict[int, Any] = OrderedDict()
        self._killed: set[UUID] = set()
        self._gone: set[Running] = set()

    def look(self) -> float:
        self._remember_processes()
        for place, running in list(self._board.running()):
            if running in self._gone or _is_gone(running.pid):
                if self._board.at(place) != running:
                    continue  # it moved on to another lease before it was gone; that is seen at the next look
                self._gone.add(running)  # while the database is away, its pid may be given to another
                if not _end_lease(running.lease_id, self._outcome(running)):
                    continue
                self._board.clear(place)
                self._gone.discard(running)
                self._killed.discard(running.lease_id)
                redispatch_timer.schedule_redispatch(0.0)
            elif time.monotonic() > running.ends_at + KILL_AFTER:
                self._kill(place, running)
        return LOOK_SECONDS

    def _remember_processes(self) -> None:
        """The pool forgets a process once it has ended; its exit code is asked for a moment later."""
        self._known.update((process.pid, process) for process in list(self._processes))
        while len(self._known) > 2 * PLACES:
            self._known.popitem(last=False)

    def _kill(self, place: int, running: Running) -> None:
        """Stop it first, so that it cannot move on to other work between our look and its end."""
        with suppress(ProcessLookupError):
            os.kill(running.pid, signal.SIGSTOP)
            if self._board.at(place) != running:
                os.kill(running.pid, signal.SIGCONT)
                return
            self._killed.add(running.lease_id)
            os.kill(running.pid, signal.SIGKILL)

    def _outcome(self, running: Running) -> Failed | Lost:
        if running.lease_id in self._killed:
            return Failed("timeout", hard_limit_text(running.limit), blames_service=False)
        return Lost(f"the process (pid {running.pid}) of its step {self._how(running.pid)}")

    def _how(self, pid: int) -> str:
        """As `was killed by signal 9 (SIGKILL)` or `exited with status 1`."""
        code = self._known[pid].exitcode if pid in self._known else None
        if code is None:
            return "ended while it ran"
        if code >= 0:
            return f"exited with status {code} while it ran"
        return f"was killed by signal {-code} ({_signal_name(-code)})"


def _is_gone(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _signal_name(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return "unknown"


def _end_lease(lease_id: UUID, outcome: Failed | Lost) -> bool:
    """False where somebody holds a row that it needs: it is ended later, and those of other children now."""
    with database():
        try:
            lost_leases.report(finish.end_abandoned(lease_id, outcome))
        except DatabaseError as error:
            if not sql.is_busy(error):
                raise
            logger.warning("lease %s is ended later: %s", lease_id, sql.trouble(error))
            return False
    return True


def watch(pool: Any) -> None:
    """Start the thread of the parent that looks after the children of this pool, if it has any."""
    processes = getattr(getattr(pool, "_pool", None), "_pool", None)
    if _board is not None and processes is not None:
        background_thread.repeat("sluice-children", ChildWatch(_board, processes).look)
