"""Gives a process a wrong clock: Python imports this first, and it shifts `time.time` and `datetime`.

`PROOF_CLOCK_SHIFT` is the shift in seconds. It applies to what Python code asks for the time; the kernel's
clock, file times and monotonic clocks are not shifted.
"""

from __future__ import annotations

import datetime
import os
import time
from datetime import datetime as REAL
from typing import Any

SHIFT = float(os.environ.get("PROOF_CLOCK_SHIFT", "0") or 0)
REAL_TIME, REAL_TIME_NS = time.time, time.time_ns


class _AnyDatetime(type):
    """Every datetime is an instance, whichever class created it."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, REAL)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, REAL)


class ShiftedDatetime(REAL, metaclass=_AnyDatetime):
    """Creates real datetimes; only `now` is wrong."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return REAL(*args, **kwargs)

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return REAL.fromtimestamp(REAL_TIME() + SHIFT, tz)

    @classmethod
    def utcnow(cls) -> Any:
        return REAL.fromtimestamp(REAL_TIME() + SHIFT, datetime.UTC).replace(tzinfo=None)


if SHIFT:
    time.time = lambda: REAL_TIME() + SHIFT
    time.time_ns = lambda: REAL_TIME_NS() + int(SHIFT * 1e9)
    datetime.datetime = ShiftedDatetime  # type: ignore[misc]  # the whole process sees another time
