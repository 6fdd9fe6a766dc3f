"""Gives a process a clock that a test sets while it runs: Python imports this first.

`STEPPED_CLOCK` names a file with the seconds by which `time.time` and Django's `now` are off. The kernel's
clock and monotonic clocks run on, as they do when a person sets the clock.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path

from django.utils import timezone

FILE = os.environ.get("STEPPED_CLOCK")
REAL_TIME = time.time


def now() -> float:
    return REAL_TIME() + float(Path(FILE or "").read_text() or 0)


if FILE:
    time.time = now
    timezone.now = lambda: datetime.fromtimestamp(now(), UTC)
