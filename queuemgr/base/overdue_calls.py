"""Notices calls that do not end: one thread looks after all that are under way in a process.

A thread cannot be stopped from outside, so what is overdue is reported, once, and left to run.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from queuemgr.base import process_state

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
"""Seconds between two looks. The thread ends when it finds no call, and the next call starts another."""

LONGEST_LOOK = 2.0
"""Most seconds that count between two looks: a process that was frozen meanwhile has not run so long."""


@dataclass(eq=False, slots=True)
class Call:
    """A call under way: of what, in which thread, how many seconds it has left, and what to do then."""

    what: tuple[str, ...]
    left: float
    report: Callable[[Call], object]
    thread: int = field(default_factory=threading.get_ident)
    overdue: bool = False

    def runs_for(self, seconds: float) -> bool:
        """Whether it has become overdue, having run for so long since the last look."""
        self.left -= min(seconds, LONGEST_LOOK)
        became, self.overdue = not self.overdue and self.left <= 0, self.overdue or self.left <= 0
        return became

    def where(self) -> str:
        """The stack of its thread."""
        frame = sys._current_frames().get(self.thread)
        return "".join(traceback.format_stack(frame)) if frame else "its thread has ended"


class _Calls:
    """Those of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.under_way: set[Call] = set()
        self.watched = False

    def forget(self) -> None:
        self.__init__()  # type: ignore[misc]  # of this very class


_calls = _Calls()
process_state.register(_calls.forget, in_forked_child=True)


@contextmanager
def timed(what: tuple[str, ...], seconds: float, report: Callable[[Call], object]) -> Iterator[Call]:
    """Call `report` in a thread of its own if the block still runs after so many seconds."""
    call = Call(what, seconds, report)
    with _calls.lock:
        _calls.under_way.add(call)
        if not _calls.watched:
            _calls.watched = True
            threading.Thread(
                target=_watch, args=(_calls.under_way,), name="sluice-overdue", daemon=True
            ).start()
    try:
        yield call
    finally:
        with _calls.lock:
            _calls.under_way.discard(call)


def is_overdue(what: tuple[str, ...]) -> bool:
    """Whether such a call is under way in this process that was reported."""
    with _calls.lock:
        return any(call.overdue and call.what == what for call in _calls.under_way)


def _watch(under_way: set[Call]) -> None:
    looked, never = time.monotonic(), threading.Event()
    while True:
        never.wait(LOOK_SECONDS)  # not `time.sleep`, which an application may have replaced
        passed, looked = time.monotonic() - looked, time.monotonic()
        with _calls.lock:
            if _calls.under_way is not under_way:
                return  # this process began anew
            if not under_way:
                _calls.watched = False
                return
            overdue = [call for call in under_way if call.runs_for(passed)]
        for call in overdue:  # each by itself: a report may wait for what another overdue call holds
            threading.Thread(target=_report, args=(call,), name="sluice-report", daemon=True).start()


def _report(call: Call) -> None:
    try:
        call.report(call)
    except Exception:
        logger.exception("%s is overdue, which could not be reported", " ".join(call.what))
