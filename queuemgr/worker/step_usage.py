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
        """The total with these, which is kept unless the block raises; one thread at a time."""
        with self._lock:
            total = self._with(amounts)
            yield total
            self._amounts = total

    def begin_adding(self, amounts: Amounts) -> Amounts | None:
        """As `adding`, until `end_adding`; None while another thread adds."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            return self._with(amounts)
        except BaseException:
            self._lock.release()
            raise

    def end_adding(self, total: Amounts | None) -> None:
        """Keep this total, or with None the one before."""
        if total is not None:
            self._amounts = dict(total)
        self._lock.release()

    def _with(self, amounts: Amounts) -> dict[str, int]:
        """None is above the largest amount, however often a step says that it used that much."""
        names = {*amounts, *self._amounts}
        return {name: min(amounts.get(name, 0) + self._amounts.get(name, 0), MAX_AMOUNT) for name in names}
