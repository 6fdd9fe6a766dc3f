"""Slots in the lanes of this process, for steps that run in threads and start child processes.

A worker may have more slots than the machine has processors, because slots wait for networks. Work
that computes waits here, with its lease, so that eight slots do not start eight parsers on two
processors.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from queuemgr.base import process_state
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.steptools.lanes import LaneName
from queuemgr.steptools.process_lanes import lanes

POLL_SECONDS = 0.2
"""Seconds between two looks at the abort signal while waiting for a slot."""


@contextmanager
def lane_slot(name: LaneName, signal: AbortSignal) -> Iterator[None]:
    """Hold one slot of the lane while the block runs. Raises `Aborted` while waiting for it."""
    with _hold(_slots(name, lanes().lane(name).concurrency), signal):
        yield


@contextmanager
def import_slot(signal: AbortSignal) -> Iterator[None]:
    """Hold one of SLUICE_IMPORT_CONCURRENCY slots, for copying a local file into storage. Raises
    `Aborted` while waiting for it."""
    with _hold(_slots("import", lanes().value("import_concurrency")), signal):
        yield


@contextmanager
def _hold(slots: threading.BoundedSemaphore, signal: AbortSignal) -> Iterator[None]:
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
