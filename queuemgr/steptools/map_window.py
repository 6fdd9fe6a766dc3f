"""The state of a windowed map: whether it may pull another item, start one, retry one, or end.

Pure: no clock, no event loop, no input or output. `map_runner` carries out what is decided here, and
decides nothing by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from queuemgr.steptools.lanes import Lane

T = TypeVar("T")


@dataclass(slots=True)
class ItemAttempt(Generic[T]):
    """One item without a final result, its attempts so far, and the error of the last one."""

    seq: int
    item: T
    attempts: int = 0
    error: Exception | None = None
    size: int = 0


@dataclass(frozen=True, slots=True)
class ByteBound(Generic[T]):
    """How many bytes of items may be pulled without a final result, and how many an item has.

    An item is pulled while fewer are pending, so that at most one item lies beyond the bound, and one that
    is larger than it runs alone.
    """

    most: int
    size_of: Callable[[T], int]


class MapWindow(Generic[T]):
    """Which items were pulled, run, or wait for a retry, and how far the reader has got.

    `lane.concurrency` attempts run at once; `lane.max_pending` items are pulled and have no final result;
    `window` items lie between the oldest one not released to the reader and the newest one pulled
    (None: there is no reader). `bound` limits the bytes of the pending ones, too.
    """

    def __init__(self, lane: Lane, window: int | None, bound: ByteBound[T] | None = None) -> None:
        self._lane, self._window, self._bound = lane, window, bound
        self.pending_bytes = 0
        self._ready: deque[ItemAttempt[T]] = deque()
        self._due: deque[ItemAttempt[T]] = deque()
        self._waiting: dict[int, ItemAttempt[T]] = {}
        self._refilling = True
        self.pulled = self.released = self.running = 0
        self.source_done = self.stopped = False

    @property
    def can_pull(self) -> bool:
        """Whether the next item of the source may be pulled."""
        pending = self.running + len(self._ready) + len(self._due) + len(self._waiting)
        if self.source_done or self.stopped or pending >= self._lane.max_pending:
            return False
        if self._bound is not None and self.pending_bytes >= self._bound.most:
            return False
        return self._refilling and (self._window is None or self.pulled < self.released + self._window)

    @property
    def over(self) -> bool:
        """Whether nothing runs, waits for a retry, or is left to start or to pull."""
        if self.running or self._waiting or self._due:
            return False
        return self.stopped or (self.source_done and not self._ready)

    def add(self, item: T) -> None:
        size = self._bound.size_of(item) if self._bound is not None else 0
        self.pending_bytes += size
        self._ready.append(ItemAttempt(self.pulled, item, size=size))
        self.pulled += 1
        self._update_refilling()

    def stop(self) -> None:
        """Start and retry nothing more; what runs may finish.

        Items that wait for a retry are due at once: the error each has becomes final.
        """
        self.stopped = True
        self._ready.clear()
        self._due.extend(self._waiting.values())
        self._waiting.clear()

    def start(self) -> ItemAttempt[T] | None:
        """The next attempt, now running: a retry that is due comes before an item not yet started."""
        if self.running >= self._lane.concurrency or not (self._due or self._ready):
            return None
        attempt = (self._due or self._ready).popleft()
        self.running += 1
        self._update_refilling()
        return attempt

    def end(self, attempt: ItemAttempt[T]) -> None:
        """A running attempt has its final result."""
        self.running -= 1
        self.pending_bytes -= attempt.size

    def wait_for_retry(self, attempt: ItemAttempt[T]) -> None:
        """A running attempt failed: it frees its slot, not its place in the window."""
        self.running -= 1
        self._waiting[attempt.seq] = attempt

    def retry(self, attempt: ItemAttempt[T]) -> None:
        """Make an item ready again after its delay."""
        if self._waiting.pop(attempt.seq, None):
            self._due.append(attempt)

    def _update_refilling(self) -> None:
        """Pulling stops when all that may be pending beyond the slots is ready to start, and resumes when
        half of it was started, so that the source works in bursts."""
        ready, most = len(self._ready), max(1, self._lane.max_pending - self._lane.concurrency)
        self._refilling = ready <= most // 2 or (self._refilling and ready < most)
