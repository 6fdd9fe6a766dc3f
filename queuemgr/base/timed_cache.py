"""A cache whose entry lives in proportion to the time it took to compute.

A page left open costs the database a fiftieth of its time at most, and values that are cheap to read
are always current. Each process has its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

MAX_LIFETIME = timedelta(seconds=30)
LIFETIME_FACTOR = 50
"""How many times as long as it took to compute a value is kept."""

Value = TypeVar("Value")


class TimedCache(Generic[Value]):
    """Holds one value."""

    def __init__(self) -> None:
        self._entry: tuple[Value, datetime, datetime] | None = None

    def forget(self) -> None:
        """Compute the value anew next time."""
        self._entry = None

    def get_or_compute(self, now: datetime, compute: Callable[[], Value]) -> Value:
        """The cached value if it is still valid at `now`, else what `compute` returns."""
        if self._entry is not None:
            value, since, until = self._entry
            if since <= now <= until:
                return value
        began = time.monotonic()
        value = compute()
        took = timedelta(seconds=time.monotonic() - began)
        self._entry = value, now, now + min(MAX_LIFETIME, LIFETIME_FACTOR * took)
        return value
