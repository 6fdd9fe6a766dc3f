"""The state of a windowed map: whether it may pull another item, start one, retry one, or end.

Pure: no clock, no event loop, no input or output. `map_runner` carries out what is decided here, and
decides nothing by itself.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Bounds:
    """How much may be in progress.

    `concurrency` attempts run at once; `max_pending` items are pulled and have no final result;
    `window` items lie between the oldest one not released to the reader and the newest one pulled
    (None: there is no reader).
    """

    concurrency: int
    max_pending: int
    window: int | None = None

    @property
    def high_water(self) -> int:
        """Items that may be ready, pulled but not started: what may be pending beyond the slots."""
        return max(1, self.max_pending - self.concurrency)

    @property
    def low_water(self) -> int:
        """Pulling resumes when at most this many are ready, so that the source works in bursts."""
        return self.high_water // 2


@dataclass(slots=True)
class ItemAttempt(Generic[T]):
    """One item without a final result, its attempts so far, and the error of the last one."""

    seq: int
    item: T
    attempts: int = 0
    error: Exception | None = None


class MapWindow(Generic[T]):
    """Which items were pulled, run, or wait for a retry, and how far the reader has got."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._ready: deque[ItemAttempt[T]] = deque()
        self._retries: list[tuple[float, int, ItemAttempt[T]]] = []
        self._refilling = True
        self._source_done = False
        self.pulled = 0
        self.released = 0
        self.running = 0
        self.stopped = False

    @property
    def pending(self) -> int:
        """Items pulled and without a final result."""
        return self.running + len(self._ready) + len(self._retries)

    @property
    def can_pull(self) -> bool:
        """Whether the next item of the source may be pulled."""
        if self._source_done or self.stopped or self.pending >= self._bounds.max_pending:
            return False
        window = self._bounds.window
        return self._refilling and (window is None or self.pulled < self.released + window)

    @property
    def over(self) -> bool:
        """Whether nothing runs, waits for a retry, or is left to start or to pull."""
        if self.running or self._retries:
            return False
        return self.stopped or (self._source_done and not self._ready)

    def add(self, item: T) -> None:
        """An item was pulled from the source."""
        self._ready.append(ItemAttempt(self.pulled, item))
        self.pulled += 1
        self._update_refilling()

    def source_done(self) -> None:
        """The source has no more items."""
        self._source_done = True

    def stop(self) -> None:
        """Start and retry nothing more; what runs may finish."""
        self.stopped = True
        self._ready.clear()

    def start(self, now: float) -> ItemAttempt[T] | None:
        """The next attempt, now running: a retry that is due comes before an item not yet started.

        After `stop` items that wait for a retry are returned at once, each with its last error, which
        becomes final.
        """
        if self.running >= self._bounds.concurrency:
            return None
        attempt = self._due_retry(now) or (self._ready.popleft() if self._ready else None)
        if attempt is not None:
            self.running += 1
            self._update_refilling()
        return attempt

    def next_retry_at(self) -> float | None:
        """When a free slot can start the next retry; None when no slot is free or nothing waits."""
        free = self.running < self._bounds.concurrency
        return self._retries[0][0] if free and self._retries else None

    def requeue(self, attempt: ItemAttempt[T], at: float) -> None:
        """A running attempt failed and is retried at `at`: it frees its slot, not its place in the window."""
        self.running -= 1
        heapq.heappush(self._retries, (at, attempt.seq, attempt))

    def finish(self) -> None:
        """A running attempt led to a final result."""
        self.running -= 1

    def release_oldest(self) -> None:
        """The reader got the oldest item's result: the window advances by one."""
        self.released += 1

    def _due_retry(self, now: float) -> ItemAttempt[T] | None:
        if self._retries and (self.stopped or self._retries[0][0] <= now):
            return heapq.heappop(self._retries)[2]
        return None

    def _update_refilling(self) -> None:
        if len(self._ready) >= self._bounds.high_water:
            self._refilling = False
        elif len(self._ready) <= self._bounds.low_water:
            self._refilling = True
