"""Dispatch again when time alone may allow a start: a rate permits the next, a breaker half-opens.

One thread in each process that serves steps, woken at the earliest time a decision named. Processes
that decide but serve no steps (a command, the admin) leave it to the workers and the tick.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from django.db import Error as DatabaseError
from django.db import connection

from queuemgr.base import process_state

logger = logging.getLogger(__name__)

MIN_DELAY = 0.002
"""Seconds: looking again sooner would see the same."""


class RedispatchTimer:
    """Calls `look` once the earliest of the times it was told has come."""

    def __init__(self, look: Callable[[], object]) -> None:
        self._look = look
        self._changed = threading.Condition()
        self._at = float("inf")
        threading.Thread(target=self._keep, name="sluice-alarm", daemon=True).start()

    def ring_in(self, seconds: float) -> None:
        at = time.monotonic() + max(seconds, MIN_DELAY)
        with self._changed:
            if at < self._at:
                self._at = at
                self._changed.notify()

    def _keep(self) -> None:
        while True:
            self._wait()
            try:
                self._look()
            except DatabaseError as error:
                logger.warning("alarm: database does not answer (%s); the tick will look", error)
                connection.close()
            except Exception:
                logger.exception("looking again failed; the tick will")

    def _wait(self) -> None:
        with self._changed:
            while (left := self._at - time.monotonic()) > 0:
                self._changed.wait(min(left, threading.TIMEOUT_MAX))
            self._at = float("inf")


_timer: RedispatchTimer | None = None


def _reset() -> None:
    global _timer
    _timer = None


process_state.register(_reset, in_forked_child=True)


def start(look: Callable[[], object]) -> None:
    """Give this process its alarm."""
    global _timer
    _timer = RedispatchTimer(look)


def schedule_redispatch(seconds: float | None) -> None:
    """Look again in so many seconds; nothing without a time, or in a process without an alarm."""
    if seconds is not None and _timer is not None:
        _timer.ring_in(seconds)
