"""Places in the lanes of this process, for steps that run in threads and start children.

A worker may have more slots than processors: slots wait for networks. What computes waits here for
its turn instead, lease in hand, so that eight slots do not start eight parsers on two processors.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Literal

from queuemgr.base import process_state
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.steptools.lanes import Lane
from queuemgr.steptools.process_lanes import lanes

Name = Literal["io", "cpu", "embedding", "proc"]

LOOK_SECONDS = 0.2
"""How often a waiting step looks whether it is to stop."""


@contextmanager
def lane_slot(name: Name, signal: AbortSignal) -> Iterator[None]:
    """Hold one of the lane's places while the block runs. Raises `Aborted` while waiting for it."""
    free = _places(getattr(lanes(), name))
    signal.raise_if_aborted()
    while not free.acquire(timeout=LOOK_SECONDS):
        signal.raise_if_aborted()
    try:
        yield
    finally:
        free.release()


@lru_cache(maxsize=16)
def _places(lane: Lane) -> threading.BoundedSemaphore:
    """The places of a lane in this process; a forked child has its own, all free."""
    return threading.BoundedSemaphore(lane.concurrency)


process_state.register(_places.cache_clear, in_forked_child=True)
