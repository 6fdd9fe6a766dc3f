"""Requests whose rows somebody else has locked: each is tried again by itself, ever more seldom.

Who locks the row of an execution (a person's session, another execution's store) holds up what ends or
begins that execution, and nobody else.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

FIRST_WAIT, LONGEST_WAIT = 0.02, 1.0
"""Seconds between two tries of one request: doubled each time, up to the longest."""

ROUND_SECONDS = 0.1
"""How long the tries of one round may take together; the rest have theirs in the next round."""


class PutOff(Generic[T]):
    """What was put off, by when it is due. Not thread-safe: one thread owns it."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, float, T]] = []
        self._order, self._waits = itertools.count(), dict[int, float]()

    def add(self, what: T) -> bool:
        """Put it off, for longer each time. True for the first time it waits the longest."""
        before = self._waits.get(id(what), FIRST_WAIT / 2)
        wait = self._waits[id(what)] = min(2 * before, LONGEST_WAIT)
        heapq.heappush(self._due, (time.monotonic() + wait, next(self._order), wait, what))
        return before < wait == LONGEST_WAIT

    def forget(self, what: T) -> None:
        """It was done: put off again, it would be for the first time."""
        self._waits.pop(id(what), None)

    def seconds(self) -> float | None:
        """Until the next is due; None if nothing is put off."""
        return max(0.0, self._due[0][0] - time.monotonic()) if self._due else None

    def round(self) -> Iterator[T]:
        """Those due now, while the round lasts."""
        began = time.monotonic()
        while self._due and self._due[0][0] <= began and time.monotonic() - began < ROUND_SECONDS:
            yield heapq.heappop(self._due)[3]
