"""The lanes of this process, and slots in them for steps that run in threads and start child processes.

A worker may have more slots than the machine has processors, because slots wait for networks. Work
that computes waits here, with its lease, so that eight slots do not start eight parsers on two
processors.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Literal

from queuemgr.base import process_state
from queuemgr.base.config import LaneSettings, lane_settings
from queuemgr.base.settings_group import DJANGO_SETTINGS, read_once
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.steptools.lanes import LaneName, Lanes, compute_lanes
from queuemgr.steptools.machine import this_machine
from queuemgr.steptools.subprocess_group import THREAD_VARIABLES


@read_once
def lanes() -> Lanes:
    """The only place these values are computed.

    Raises `ConfigurationError` for a setting that cannot work.
    """
    return compute_lanes(
        lane_settings().model_dump(), lambda name: LaneSettings.source(name, DJANGO_SETTINGS), this_machine()
    )


def limit_model_threads() -> None:
    """Give numeric libraries `SLUICE_MODEL_THREADS` threads in this process and the ones it starts, unless
    their own variables are set. They read them when they are loaded: call this before."""
    threads = str(lanes().value("model_threads"))
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, threads)


@contextmanager
def lane_slot(name: LaneName | Literal["import"], signal: AbortSignal) -> Iterator[None]:
    """Hold one slot of the lane while the block runs, first come, first served; `import` is for copying a
    local file into storage. Raises `Aborted` while waiting for it, which counts to no time limit."""
    slots = _slots(name, lanes().value(f"{name}_concurrency"))
    slots.take(signal)
    try:
        yield
    finally:
        slots.give_back()


class Slots:
    """Slots in the order of requests: whoever waits longest gets the one that is released."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._lock = threading.Lock()
        self.waiting: deque[threading.Event] = deque()

    def take(self, signal: AbortSignal) -> None:
        """Wait for a slot. Raises `Aborted`, and then holds none."""
        signal.raise_if_aborted()
        turn = threading.Event()
        with self._lock:
            if self._free:
                self._free -= 1
                return
            self.waiting.append(turn)
        try:
            with signal.waiting(), signal.hooked(turn.set):
                turn.wait()
            signal.raise_if_aborted()
        except BaseException:
            self._leave(turn)
            raise

    def give_back(self) -> None:
        with self._lock:
            if self.waiting:
                self.waiting.popleft().set()
            else:
                self._free += 1

    def _leave(self, turn: threading.Event) -> None:
        """Wait no longer; a slot that was handed over meanwhile is given back."""
        with self._lock:
            if turn in self.waiting:
                self.waiting.remove(turn)
                return
        self.give_back()


@lru_cache(maxsize=16)
def _slots(name: str, concurrency: int) -> Slots:
    """The slots of this name in this process; a forked child gets its own, all free."""
    return Slots(concurrency)


process_state.register(_slots.cache_clear, in_forked_child=True)
