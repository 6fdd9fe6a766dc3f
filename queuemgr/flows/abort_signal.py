"""The abort signal: set once, from any thread, and checked by long steps, HTTP calls and child processes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from queuemgr.base.errors import Aborted

logger = logging.getLogger(__name__)


class AbortSignal:
    """A flag to poll, to wait for, or to hook.

    Hooks run once, in the thread that aborts, and must be quick: kill a process group, wake a loop.
    All of them run, also after one that raises, which is logged.
    """

    def __init__(self) -> None:
        self._set = threading.Event()
        self._lock = threading.Lock()
        self._hooks: list[Callable[[], object]] = []
        self._waits = 0
        self._waited = self._waits_since = 0.0
        self.reason = ""
        self.timed_out = False

    @property
    def aborted(self) -> bool:
        return self._set.is_set()

    def abort(self, reason: str, *, timed_out: bool = False) -> None:
        """Set the signal. The reason of the first call counts; `timed_out` makes the step's end a timeout
        instead of an interruption."""
        with self._lock:
            if self._set.is_set():
                return
            self.reason, self.timed_out = reason, timed_out
            self._set.set()
            hooks, self._hooks = self._hooks, []
        for hook in hooks:
            try:
                hook()
            except BaseException:  # the hooks after it have processes to end
                logger.exception("a hook of the abort signal failed")

    def raise_if_aborted(self) -> None:
        if self._set.is_set():
            raise Aborted(self.reason)

    def sleep(self, seconds: float) -> None:
        """Sleep, or raise `Aborted` the moment the signal is set."""
        if self._set.wait(seconds):
            raise Aborted(self.reason)

    @property
    def waited(self) -> float:
        """Seconds in blocks of `waiting`; of several at once each second counts once."""
        with self._lock:
            return self._waited + (time.monotonic() - self._waits_since if self._waits else 0.0)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The block waits for its turn on this machine, which is no work: time limits do not count it."""
        with self._lock:
            if not self._waits:
                self._waits_since = time.monotonic()
            self._waits += 1
        try:
            yield
        finally:
            with self._lock:
                self._waits -= 1
                if not self._waits:
                    self._waited += time.monotonic() - self._waits_since

    @contextmanager
    def hooked(self, hook: Callable[[], object]) -> Iterator[None]:
        """Call `hook` if the signal is set while the block runs, or was set before it."""
        with self._lock:
            armed = not self._set.is_set()
            if armed:
                self._hooks.append(hook)
        if not armed:
            hook()
        try:
            yield
        finally:
            with self._lock:
                if hook in self._hooks:
                    self._hooks.remove(hook)


NEVER = AbortSignal()
"""A signal nobody sets, for scripts and tests."""
