"""How long the scheduler lock is held, summed over all processes: what bounds the starts of the whole fleet.

Each process counts its own transactions, from the moment it has the lock to the commit, and adds what it has
counted to the sums in the database once a minute and as it ends: no statement is added to an execution. What
a process that is killed has not stored is lost.

The sums are rows beside those of anomalies, one for each bucket that is not empty and one for the
microseconds in all; so they only grow, in whatever order processes add to them.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from queuemgr.base import process_state
from queuemgr.base.histogram import SHORT_BOUNDS
from queuemgr.lifecycle import anomalies

STORE_SECONDS = 60.0
"""How often a process stores what it has counted, as late as other histograms are."""

KIND = "lock_hold"
SUM = f"{KIND}_us"


class _Counted:
    """What this process has counted since it stored it last, by the kind of its row."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._lock = threading.Lock()
        self._counts = Counter[str]()
        self._stored_at = time.monotonic()

    def add(self, counts: Mapping[str, int]) -> None:
        with self._lock:
            self._counts.update(counts)

    def is_due(self) -> bool:
        return time.monotonic() - self._stored_at > STORE_SECONDS

    def take(self) -> Counter[str]:
        """What there is, which is no longer here then."""
        with self._lock:
            taken, self._counts, self._stored_at = self._counts, Counter(), time.monotonic()
        return taken


_counted = _Counted()
process_state.register(_counted.reset, in_forked_child=True)


def note(seconds: float) -> None:
    """Count one transaction that held the lock for so long; outside of a transaction."""
    _counted.add({_bucket(seconds): 1, SUM: round(seconds * 1e6)})
    if _counted.is_due():
        write_sums()


def write_sums() -> None:
    """Add what this process has counted to the sums; what cannot be stored now is kept."""
    counts = _counted.take()
    try:
        anomalies.add_to_sums(counts)
    except BaseException:
        _counted.add(counts)
        raise


def _bucket(seconds: float) -> str:
    place = bisect_left(SHORT_BOUNDS, seconds)
    return f"{KIND}_{SHORT_BOUNDS[place]:g}" if place < len(SHORT_BOUNDS) else f"{KIND}_more"


class Holds(NamedTuple):
    """How often the lock was held for how long: a count for each bucket, the last without an upper bound, and
    seconds in all."""

    counts: list[int]
    seconds: float


def holds_of(sums: Mapping[str, int]) -> Holds:
    """Read from the sums of all time, by kind."""
    kinds = [*(f"{KIND}_{bound:g}" for bound in SHORT_BOUNDS), f"{KIND}_more"]
    return Holds([int(sums.get(kind, 0)) for kind in kinds], int(sums.get(SUM, 0)) / 1e6)
