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
"""Seconds: dispatching again sooner would find the same state."""


class RedispatchTimer:
    """Calls `dispatch` at the earliest of the times it was given."""

    def __init__(self, dispatch: Callable[[], object]) -> None:
        self._dispatch = dispatch
        self._changed = threading.Condition()
        self._at = float("inf")
        threading.Thread(target=self._run, name="sluice-redispatch", daemon=True).start()

    def schedule(self, seconds: float) -> None:
        at = time.monotonic() + max(seconds, MIN_DELAY)
        with self._changed:
            if at < self._at:
                self._at = at
                self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while (left := self._at - time.monotonic()) > 0:
                    self._changed.wait(min(left, threading.TIMEOUT_MAX))
                self._at = float("inf")
            try:
                self._dispatch()
            except DatabaseError as error:
                logger.warning("redispatch: database does not answer (%s); left to the next tick", error)
                connection.close()
            except Exception:  # the thread must continue, whatever a dispatch raises
                logger.exception("redispatch failed; left to the next tick")


_timer: RedispatchTimer | None = None


def _reset() -> None:
    global _timer
    _timer = None


process_state.register(_reset, in_forked_child=True)


def start(dispatch: Callable[[], object]) -> None:
    global _timer
    _timer = RedispatchTimer(dispatch)


def schedule_redispatch(seconds: float | None) -> None:
    """Dispatch again in `seconds`; does nothing for None, or in a process without a timer."""
    if seconds is not None and _timer is not None:
        _timer.schedule(seconds)
