"""Rate notation, and the algorithm that enforces a rate. Pure.

The algorithm is GCRA (generic cell rate algorithm, ITU-T I.371): a start conforms when the rate's
clock is at most the burst tolerance ahead of now, and then advances the clock by one interval. At
most `burst + t / interval` starts begin in any span of t seconds; there are no window edges.

A start may be granted up to `LEAD` seconds before it conforms: it is booked at the moment it conforms, and
its slot waits until then. So the time it takes to decide, to send a message and to begin is not lost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from queuemgr.base.column_sizes import MAX_INTEGER
from queuemgr.base.errors import BadInput

_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_SECONDS |= {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "month": 30 * 86_400}

_RATE = re.compile(
    r"(?P<starts>[0-9][0-9,]{,15}) *(?:/| per | every ) *(?P<count>[0-9]{1,9}(?:\.[0-9]{1,9})?)? *"
    r"(?P<unit>[smhd]|min|(?:second|minute|hour|day|month)s?)(?:,? *burst *(?P<burst>[0-9][0-9,]{,15}))?"
)

MOST_STARTS = MAX_INTEGER
LONGEST_PERIOD = 3660 * 86_400
"""Seconds: ten years, as for any time that is set ahead; clocks of rates are dates."""

MOST_CHARACTERS = 500

EXAMPLES = '"1/3s", "50/s burst 100", "10000/h"'


LEAD = 0.1
"""Seconds before it conforms that a start may be granted: several times what a decision, a message and a
begin take, so that the rate is reached, and no longer than a slot may stand idle for it."""

MAX_HOLD = 1.0
"""Seconds a slot waits for its start at most, whatever the clocks say: more than `LEAD` for several rates."""

COMMIT_TIME = 0.01
"""Seconds from booking a start to its beginning, while the booking is committed and answered."""


@dataclass(frozen=True, slots=True)
class Rate:
    """One start every `interval` seconds, and up to `burst` at once after a pause. `period`: the seconds of
    which it was written, as 60 in `20/m`."""

    interval: float
    burst: int = 1
    period: float = field(default=0.0, compare=False)

    @property
    def tolerance(self) -> float:
        """Seconds the rate's clock may be ahead of now."""
        return (self.burst - 1) * self.interval

    @property
    def farthest(self) -> float:
        """Seconds the rate's clock may be ahead of now after a start that was granted early. A clock further
        ahead was left by a slower rate, or by a clock of the machine that has been set back since: it
        counts as full and no more."""
        return self.tolerance + self.interval + MAX_HOLD

    @property
    def commit_time(self) -> float:
        """Seconds by which a start that conforms already is booked later than now: were it booked now, the
        next one would follow its true beginning too soon. Bursts may come closer together anyway."""
        return min(COMMIT_TIME, self.interval / 10) if self.burst == 1 else 0.0

    def wait(self, ahead: float, pending: int) -> float:
        """Seconds until one more start may be granted; 0 when it may be now.

        `ahead`: seconds the rate's clock is ahead of now (negative: idle). `pending`: starts granted
        that have not begun; they count as beginning now, so that the rate is kept between actual
        beginnings however late each one comes.
        """
        full = min(max(ahead, 0.0), self.farthest)
        return max(0.0, full + pending * self.interval - self.tolerance)


class Debit(Protocol):
    """What one start takes of a clock: `interval` seconds, once the clock is no more than `tolerance` ahead
    of now; ahead by more than `farthest` it counts as `farthest`. See `Rate`."""

    @property
    def interval(self) -> float: ...
    @property
    def tolerance(self) -> float: ...
    @property
    def farthest(self) -> float: ...
    @property
    def commit_time(self) -> float: ...


def book(clocks: dict[str, float], rates: Mapping[str, Debit], now: float) -> float:
    """Book one start under these rates: advances their clocks, and returns the moment from which it
    conforms to all of them, `now` at the earliest and `MAX_HOLD` seconds later at the latest.

    `clocks` and `now` are in seconds of the same clock; an absent clock is idle.
    """
    full = {name: min(clocks.get(name, 0.0), now + rate.farthest) for name, rate in rates.items()}
    conforms = max((full[name] - rate.tolerance for name, rate in rates.items()), default=now)
    start = min(max(now, conforms), now + MAX_HOLD)
    for name, rate in rates.items():
        clocks[name] = max(full[name], start) + rate.interval
    return start


@lru_cache(maxsize=1000)
def parse_rate(text: str, *, at_once: bool = False) -> Rate | None:
    """The rate in `text`, None when it is empty. Without `burst` starts are evenly spaced; with
    `at_once` all starts of one period may come together. Reads what pages show, too.

    Raises `BadInput` quoting `text`, with examples.
    """
    if len(text) > MOST_CHARACTERS:
        raise _not_understood(text)
    if not text.strip():
        return None
    match = _RATE.fullmatch(" ".join(text.lower().split()))
    if match is None:
        raise _not_understood(text)
    starts, unit = _whole(match["starts"]), match["unit"]
    seconds = float(match["count"] or 1) * (_SECONDS.get(unit) or _SECONDS[unit.removesuffix("s")])
    burst = _whole(match["burst"]) if match["burst"] else (starts if at_once else 1)
    if starts < 1 or seconds <= 0 or burst < 1:
        raise _not_understood(text)
    if max(starts, burst) > MOST_STARTS or max(1, burst / starts) * seconds > LONGEST_PERIOD:
        raise BadInput(
            f"rate {text!r} is out of range: {MOST_STARTS:,} starts at most, at once or in a period, and "
            f"{LONGEST_PERIOD // 86_400} days for a period, and for as many starts as a burst has"
        )
    return Rate(seconds / starts, burst, seconds)


def _whole(digits: str) -> int:
    return int(digits.replace(",", ""))


def _not_understood(text: str) -> BadInput:
    shown = text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + "…"
    return BadInput(f"rate {shown!r} is not understood; write it like {EXAMPLES}")
