"""Dispatch again when time alone may allow a start: a rate permits the next, a breaker half-opens.

One thread in each process that serves steps, woken at every time a decision named. Processes that decide
but serve no steps (a command, the admin) have none: the workers look once a second at what is parked until
a time (`worker.heartbeat`).
"""

from __future__ import annotations

import heapq
import logging
import math
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


class RedispatchTimer:
    """Calls `dispatch` at each of the times it was given, once for those in the same tick."""

    def __init__(self, dispatch: Callable[[], object], start_thread: StartThread) -> None:
        self._dispatch = dispatch
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
                self._wait()
                with one_turn():
                    self._dispatch()
            except DatabaseError as error:
                logger.warning("redispatch: %s; trying again", sql.trouble(error))
                self._try_again()
            except Exception:  # the thread must continue, whatever a dispatch raises
                logger.exception("redispatch failed; trying again in %g s", RETRY_SECONDS)
                self._try_again()

    def _wait(self) -> None:
        """Wait for the next time; without a connection, unless that comes soon."""
        if self._left() > KEEP_CONNECTION_SECONDS:
            _close()
        with self._changed:
            while (left := self._left()) > 0:
                self._changed.wait(min(left, threading.TIMEOUT_MAX))
            now = time.monotonic()
            while self._ticks and self._ticks[0] * TICK <= now:
                heapq.heappop(self._ticks)

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


def _reset() -> None:
    global _timer
    _timer = None


process_state.register(_reset, in_forked_child=True)


def start(dispatch: Callable[[], object], start_thread: StartThread) -> None:
    """`start_thread` takes a name and what runs, for good, in a thread of that name."""
    global _timer
    _timer = RedispatchTimer(dispatch, start_thread)


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
