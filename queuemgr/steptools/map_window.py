"""What a windowed run may do next: take another item, start one, try one again, or end.

Pure: no clock, no loop, no input or output. `ordered_map` carries it out. Every decision is
made from these counts and queues, and from nothing else.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Bounds:
    """How much may be under way.

    `concurrency` tries at once; `max_pending` items taken and without a final result; `window`
    items from the oldest one not handed to the reader, or None where nobody reads in order.
    """

    concurrency: int
    max_pending: int
    window: int | None = None

    @property
    def high_water(self) -> int:
        """Items that may stand ready, taken but not started: what is pending beyond the slots."""
        return max(1, self.max_pending - self.concurrency)

    @property
    def low_water(self) -> int:
        """Taking goes on when no more than this stand ready, so that a source works in bursts."""
        return self.high_water // 2


@dataclass(slots=True)
class ItemAttempt(Generic[T]):
    """One item without a final result, how often it was tried, and what the last try raised."""

    seq: int
    item: T
    attempts: int = 0
    error: Exception | None = None


class MapWindow(Generic[T]):
    """Which items were taken, which run, which wait, and up to where the reader has read."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._ready: deque[ItemAttempt[T]] = deque()
        self._later: list[tuple[float, int, ItemAttempt[T]]] = []
        self._refilling = True
        self._exhausted = False
        self.taken = 0
        self.handed = 0
        self.running = 0
        self.stopped = False

    @property
    def pending(self) -> int:
        """Items taken and without a final result."""
        return self.running + len(self._ready) + len(self._later)

    @property
    def may_take(self) -> bool:
        """Whether the next item of the source may be taken: its place is known before it is."""
        if self._exhausted or self.stopped or self.pending >= self._bounds.max_pending:
            return False
        return self._refilling and self._inside_window(self.taken)

    @property
    def over(self) -> bool:
        """Nothing runs, nothing waits to be tried again, and nothing is left to start or take."""
        if self.running or self._later:
            return False
        return self.stopped or (self._exhausted and not self._ready)

    def take(self, item: T) -> None:
        """Let in the next item of the source."""
        self._ready.append(ItemAttempt(self.taken, item))
        self.taken += 1
        self._refill()

    def exhaust(self) -> None:
        """The source has no more."""
        self._exhausted = True

    def stop(self) -> None:
        """Start nothing more and try nothing again; what runs may come to its end."""
        self.stopped = True
        self._ready.clear()

    def start(self, now: float) -> ItemAttempt[T] | None:
        """The next try, now under way: one due again goes before one not yet started.

        After a stop those that waited to be tried again come at once, each with its last error,
        to be settled and not to be run.
        """
        if self.running >= self._bounds.concurrency:
            return None
        found = self._due(now) or (self._ready.popleft() if self._ready else None)
        if found is not None:
            self.running += 1
            self._refill()
        return found

    def wakes_at(self) -> float | None:
        """When the next try is due that a free slot waits for; None when there is none."""
        free = self.running < self._bounds.concurrency
        return self._later[0][0] if free and self._later else None

    def again(self, tried: ItemAttempt[T], at: float) -> None:
        """A try failed and another follows at `at`: it gives up its slot, not its place."""
        self.running -= 1
        heapq.heappush(self._later, (at, tried.seq, tried))

    def finish(self) -> None:
        """A try came to a final result."""
        self.running -= 1

    def hand(self) -> None:
        """The reader was given the oldest item's result: the window moves on by one."""
        self.handed += 1

    def _due(self, now: float) -> ItemAttempt[T] | None:
        if self._later and (self.stopped or self._later[0][0] <= now):
            return heapq.heappop(self._later)[2]
        return None

    def _refill(self) -> None:
        if len(self._ready) >= self._bounds.high_water:
            self._refilling = False
        elif len(self._ready) <= self._bounds.low_water:
            self._refilling = True

    def _inside_window(self, seq: int) -> bool:
        return self._bounds.window is None or seq < self.handed + self._bounds.window
