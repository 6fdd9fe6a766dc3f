"""Sends Django signals after the commit, from a thread of their own: receivers are code of applications.

The caller pays for nothing where nobody listens, and otherwise for an append to a list.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from django.dispatch import Signal

from queuemgr.base import process_state
from queuemgr.base.after_commit import after_commit
from queuemgr.base.db_connection import database
from queuemgr.base.redaction import describe_error

logger = logging.getLogger(__name__)

MOST_WAITING = 10_000
"""Events that wait for their receivers; further ones are dropped, and counted in the log."""

LAST_SECONDS = 2.0
"""How long a process that ends waits for its receivers."""

SLOW_SECONDS = 5.0
"""Receivers that take longer are named in the log."""


def send_after_commit(signal: Signal, make_events: Callable[[], Iterable[Any]]) -> None:
    """Send these events once the caller's transaction has committed; they are made now, and only if
    somebody listens."""
    if signal.receivers and (events := list(make_events())):
        after_commit(partial(_delivery.add, [(signal, event) for event in events]))


def send_now(signal: Signal, events: Iterable[Any]) -> None:
    """As `send_after_commit`, of what is committed; the caller needs no connection."""
    if signal.receivers:
        _delivery.add([(signal, event) for event in events])


def flush(seconds: float = LAST_SECONDS) -> bool:
    """Wait until what was sent has been received, for so long; returns whether it has."""
    return _delivery.flush(seconds)


class _Delivery:
    """The events of this process that wait, and the thread that has them received."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Signal, Any]] = deque()
        self._thread: threading.Thread | None = None
        self._busy = False
        self._dropped = 0

    def forget(self) -> None:
        self.__init__()  # type: ignore[misc]  # of this very class

    def add(self, events: list[tuple[Signal, Any]]) -> None:
        with self._changed:
            room = MOST_WAITING - len(self._waiting)
            self._waiting.extend(events[:room])
            self._count_dropped(len(events) - room)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="signals", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, seconds: float) -> bool:
        if threading.current_thread() is self._thread:
            return False
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, seconds)

    def _count_dropped(self, dropped: int) -> None:
        if dropped > 0:
            self._dropped += dropped
            if self._dropped == dropped:  # the first ones: the rest is counted when there is room again
                logger.error(
                    "receivers of signals are too slow: %d events wait, more are dropped", MOST_WAITING
                )

    def _run(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: bool(self._waiting))
                some, self._busy = list(self._waiting), True
                self._waiting.clear()
                dropped, self._dropped = self._dropped, 0
            if dropped:
                logger.error("%d events were dropped: receivers of signals were too slow", dropped)
            with database():
                for signal, event in some:
                    _receive(signal, event)


def _receive(signal: Signal, event: Any) -> None:
    began = time.monotonic()
    try:
        answers = signal.send_robust(sender=type(event), event=event)
    except BaseException as error:  # such as SystemExit: the thread is not its to end
        logger.error("a receiver of %s ended with %s", event, describe_error(error))
        return
    for receiver, answer in answers:
        if isinstance(answer, Exception):
            logger.error("receiver %s of %s raised %s", _name(receiver), event, describe_error(answer))
    if (took := time.monotonic() - began) > SLOW_SECONDS:
        receivers = ", ".join(_name(receiver) for receiver, _ in answers)
        logger.warning("receivers of %s took %.0f s: %s", event, took, receivers)


def _name(receiver: Any) -> str:
    return f"{getattr(receiver, '__module__', '')}.{getattr(receiver, '__qualname__', receiver)}"


_delivery = _Delivery()
process_state.register(_delivery.forget, in_forked_child=True)
atexit.register(flush)
