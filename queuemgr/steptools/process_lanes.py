"""The lanes of this process, and slots in them for steps that run in threads and start child processes.

A worker may have more slots than the machine has processors, because slots wait for networks. Work
that computes waits here, with its lease, so that eight slots do not start eight parsers on two
processors.
"""

from __future__ import annotations

import os
import threading
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

POLL_SECONDS = 0.2
"""Seconds between two looks at the abort signal while waiting for a slot."""


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
    """Hold one slot of the lane while the block runs; `import` is for copying a local file into storage.
    Raises `Aborted` while waiting for it."""
    slots = _slots(name, lanes().value(f"{name}_concurrency"))
    signal.raise_if_aborted()
    while not slots.acquire(timeout=POLL_SECONDS):
        signal.raise_if_aborted()
    try:
        yield
    finally:
        slots.release()


@lru_cache(maxsize=16)
def _slots(name: str, concurrency: int) -> threading.BoundedSemaphore:
    """The slots of this name in this process; a forked child gets its own, all free."""
    return threading.BoundedSemaphore(concurrency)


process_state.register(_slots.cache_clear, in_forked_child=True)
