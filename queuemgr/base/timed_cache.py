"""A reading that takes the database long is kept for so many times as long as it took.

So that a page left open costs it a fiftieth of its time at most, and a small fleet's figures are
always new. Nothing is kept longer than half a minute; each process keeps its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Generic, NamedTuple, TypeVar

MIN_SECONDS = timedelta(seconds=30)
SHARE = 50

Reading = TypeVar("Reading")


class _Read(NamedTuple, Generic[Reading]):
    value: Reading
    at: datetime
    until: datetime


class TimedCache(Generic[Reading]):
    """The last reading, as long as it is kept."""

    def __init__(self) -> None:
        self._last: _Read[Reading] | None = None

    def forget(self) -> None:
        """Read anew next time."""
        self._last = None

    def at(self, now: datetime, read: Callable[[], Reading]) -> Reading:
        """What is kept at `now`, else what `read` gives."""
        last = self._last
        if last is None or not last.at <= now <= last.until:
            began = time.monotonic()
            value = read()
            took = timedelta(seconds=time.monotonic() - began)
            last = self._last = _Read(value, now, now + min(MIN_SECONDS, SHARE * took))
        return last.value
