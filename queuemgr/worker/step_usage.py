"""What a running step has used of meters, in the process that runs it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from queuemgr.base.meters import MAX_AMOUNT, Amounts


class StepUsage:
    """What a running step has used of meters so far; several of its threads may add to it."""

    def __init__(self) -> None:
        self._lock, self._amounts = threading.Lock(), dict[str, int]()
        self.lacking: tuple[str, str] = ("", "")
        """Of which meter a service had too little left by its latest answer, and the limit meant if it was
        named."""

    @contextmanager
    def adding(self, amounts: Amounts) -> Iterator[Amounts]:
        """The total with these, which is kept unless the block raises; one thread at a time. None is above
        the largest amount, however often a step says that it used that much."""
        with self._lock:
            names = {*amounts, *self._amounts}
            total = {
                name: min(amounts.get(name, 0) + self._amounts.get(name, 0), MAX_AMOUNT) for name in names
            }
            yield total
            self._amounts = total
