"""How far estimates are from what happens, as `python -m bench.estimates` measured (docs/benchmarks.md)."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from queuemgr.base.time_text import moment_text


class Range(NamedTuple):
    """What eight of ten lie within, as multiples of the predicted time ahead."""

    least: float
    most: float

    def text(self, at: datetime, now: datetime) -> str:
        """`8 of 10 from 14:30:12 UTC to 14:35:40 UTC`."""
        ahead = at - now
        least, most = (moment_text(now + ahead * each, now) for each in self)
        return f"8 of 10 from {least} to {most}"


START, END = Range(0.88, 1.29), Range(0.92, 1.69)
"""Of the start of an execution, and of the end of much work, as of a batch."""
