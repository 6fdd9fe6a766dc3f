"""How many rows a bulk action may change now, and the size of its next chunk. Pure.

Rates follow GCRA (see `base.rate`): each changed row advances the action's clock by one interval, and while
the clock is ahead of now nothing is changed. The clock is a column, so it survives restarts; unused time is
kept for `CATCH_UP_SECONDS` only, so that workers back after an hour do not change an hour's worth at once.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from math import floor

CATCH_UP_SECONDS = 10
"""Two ticks at the default SLUICE_POLL_INTERVAL: the next tick may catch up on what one left over."""


def may_change(per_minute: int, clock: datetime, now: datetime, most: int) -> int:
    """How many rows may be changed now, at most `most`; `per_minute` 0: no rate.

    Over any span of t seconds at most `(t + CATCH_UP_SECONDS) * per_minute / 60 + 1` rows are.
    """
    if not per_minute:
        return most
    behind = (now - _caught_up(clock, now)).total_seconds()
    return min(most, floor(behind * per_minute / 60) + 1) if behind >= 0 else 0


def clock_after(per_minute: int, clock: datetime, now: datetime, changed: int) -> datetime:
    """The clock after so many rows were changed now."""
    if not per_minute:
        return now
    return _caught_up(clock, now) + timedelta(seconds=changed * 60 / per_minute)


def _caught_up(clock: datetime, now: datetime) -> datetime:
    return max(clock, now - timedelta(seconds=CATCH_UP_SECONDS))


FEWEST, MOST = 100, 500
"""Rows in one chunk. A chunk has some 25 statements however few its rows are: below 100 smaller ones
would hold the lock hardly any shorter, and more often."""

HELD_SECONDS = 0.05
"""How long a chunk should hold the scheduler lock: half of what a finish waits for it before it leaves the
next decision to others."""


def chunk_size(rows: int, took: float) -> int:
    """Rows for the next chunk, after one of so many took so many seconds: at most twice as many."""
    wanted = rows * HELD_SECONDS / max(took, 0.001)
    return max(FEWEST, min(MOST, 2 * rows, int(wanted)))
