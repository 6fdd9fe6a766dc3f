"""Dispatch again when time alone may allow a start: a rate permits the next, a breaker half-opens.

One thread in each process that serves steps, woken at every time a decision named. The children of a prefork
pool name the same times: the first to wake dispatches, and the others see in shared memory that it did.
Processes that decide but serve no steps (a command, the admin) have none: the workers look once a second at
what is parked until a time (`worker.heartbeat`), and so find what a child left that died as it dispatched.
"""

from __future__ import annotations

import heapq
import logging
import math
import mmap
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from django.db import Error as DatabaseError

from queuemgr.base import process_state, sql
from queuemgr.base.db_connection import close_connections, one_turn
from queuemgr.base.scheduler_lock import database_now
from queuemgr.scheduling import parking

logger = logging.getLogger(__name__)

TICK = 0.01
"""Seconds: times are kept in whole ticks, rounded up, so that times close together are one dispatch. Rates
lose nothing, since starts are granted up to `rate.LEAD` early."""

RETRY_SECONDS = 1.0
"""When to dispatch again after a dispatch that failed."""

KEEP_CONNECTION_SECONDS = 1.0
"""The connection is kept while the next dispatch is due sooner than this."""


LOOK_SECONDS = 1.0
"""How often one process of each worker looks at parked routes."""

MISSED = timedelta(days=1)
"""How long ago a parked route may have opened and be noticed; the tick unparks those before it."""


StartThread = Callable[[str, Callable[[], object]], object]


class LastDispatch:
    """The tick in which a process of this worker last began to dispatch, in memory that its children share.

    Two that write at once both dispatch, which costs time and nothing else.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _TICK_NUMBER.size)

    def begin(self, due: int) -> bool:
        """Whether a dispatch for this tick is still to be begun; then the caller is to begin it now."""
        if _TICK_NUMBER.unpack_from(self._memory)[0] >= due:
            return False
        _TICK_NUMBER.pack_into(self._memory, 0, math.floor(time.monotonic() / TICK))
        return True


_TICK_NUMBER = struct.Struct("=q")


class RedispatchTimer:
    """Calls `dispatch` at each of the times it was given, once for those in the same tick."""

    def __init__(
        self, dispatch: Callable[[], object], start_thread: StartThread, last: LastDispatch | None = None
    ) -> None:
        self._dispatch = dispatch
        self._last = last or LastDispatch()
        self._changed = threading.Condition()
        self._ticks: list[int] = []  # a heap, without duplicates
        start_thread("sluice-redispatch", self._run)

    def schedule(self, seconds: float) -> None:
        tick = math.ceil((time.monotonic() + max(seconds, 0.0)) / TICK)
        with self._changed:
            if tick not in self._ticks and tick + 1 not in self._ticks:
                heapq.heappush(self._ticks, tick)
                self._changed.notify()

    def _run(self) -> None:
        while True:
            try:
                if self._last.begin(self._wait()):
                    with one_turn():
                        self._dispatch()
            except DatabaseError as error:
                logger.warning("redispatch: %s; trying again", sql.trouble(error))
                self._try_again()
            except Exception:  # the thread must continue, whatever a dispatch raises
                logger.exception("redispatch failed; trying again in %g s", RETRY_SECONDS)
                self._try_again()

    def _wait(self) -> int:
        """Wait for the next time; without a connection, unless that comes soon. Returns the last tick due."""
        if self._left() > KEEP_CONNECTION_SECONDS:
            _close()
        with self._changed:
            while (left := self._left()) > 0:
                self._changed.wait(min(left, threading.TIMEOUT_MAX))
            now = time.monotonic()
            due = 0
            while self._ticks and self._ticks[0] * TICK <= now:
                due = heapq.heappop(self._ticks)
            return due

    def _left(self) -> float:
        """Seconds to the next time."""
        with self._changed:
            return self._ticks[0] * TICK - time.monotonic() if self._ticks else math.inf

    def _try_again(self) -> None:
        _close()
        self.schedule(RETRY_SECONDS)


def _close() -> None:
    with suppress(Exception):  # a connection that cannot be closed is replaced when it is used
        close_connections()


_timer: RedispatchTimer | None = None
_last: LastDispatch | None = None


def _forget_timer() -> None:
    global _timer
    _timer = None


def _forget_last() -> None:
    global _last
    _last = None


process_state.register(_forget_timer, in_forked_child=True)
process_state.register(_forget_last)


def share_with_children() -> None:
    """Called in the parent of a pool before it forks."""
    global _last
    _last = LastDispatch()


def start(dispatch: Callable[[], object], start_thread: StartThread) -> None:
    """`start_thread` takes a name and what runs, for good, in a thread of that name."""
    global _timer
    _timer = RedispatchTimer(dispatch, start_thread, _last)


def schedule_redispatch(seconds: float | None) -> None:
    """Dispatch again in `seconds`; does nothing for None, or in a process without a timer."""
    if seconds is not None and _timer is not None:
        _timer.schedule(seconds)


def look_at_parked_routes() -> None:
    """Dispatch when the next of them opens, or if one was missed: whoever parked it may have no timer, or be
    gone. To be called once in `LOOK_SECONDS`."""
    now = database_now()
    opens = parking.next_opening(now - MISSED)
    if opens and (wait := (opens - now).total_seconds()) < 2 * LOOK_SECONDS:
        schedule_redispatch(wait)
