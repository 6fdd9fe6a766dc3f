"""Rates as people write them, and the exact rule behind them. Pure.

The rule is the generic cell rate algorithm (GCRA, ITU-T I.371): a start conforms when the limit's
clock is no more than the burst's tolerance ahead of now, and puts it one interval further. Over any
span of time t at most `burst + t / interval` starts begin; there are no window edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from limits import parse as parse_notation

from queuemgr.base.errors import BadInput

UNITS = {"s": "second", "m": "minute", "h": "hour", "d": "day"}

EXAMPLES = '"1/3s", "50/s burst 100", "10000/h"'


@dataclass(frozen=True, slots=True)
class Rate:
    """One start every `interval` seconds, and up to `burst` at once after a quiet time."""

    interval: float
    burst: int = 1

    @property
    def tolerance(self) -> float:
        """Seconds the clock may be ahead of now."""
        return (self.burst - 1) * self.interval

    def wait(self, ahead: float, pending: int) -> float:
        """Seconds until one more may start; 0 when it may now.

        `ahead`: seconds the limit's clock is ahead of now (negative: idle); `pending`: starts granted
        that have not begun. They are counted as beginning now, so that however late each begins the
        rate holds where it is measured: at the beginnings.
        """
        return max(0.0, max(ahead, 0.0) + pending * self.interval - self.tolerance)


@lru_cache(maxsize=1000)
def parse_rate(text: str, *, at_once: bool = False) -> Rate | None:
    """The rate a person wrote; None for none. Without `burst` starts are evenly spaced, or, for
    callers that may come `at_once`, all that one span allows is a burst.

    Raises `BadInput` quoting what was written and what would be right.
    """
    if not text.strip():
        return None
    try:
        starts, _, burst = text.strip().lower().partition("burst")
        item = parse_notation(_in_words(starts.strip()))
        unsaid = item.amount if at_once else 1
        return _rate(item.amount, item.get_expiry(), int(burst) if burst else unsaid)
    except (ValueError, IndexError, ZeroDivisionError):
        raise BadInput(f"rate {text!r} is not understood; write it like {EXAMPLES}") from None


def _in_words(starts: str) -> str:
    """`1/3s` as the parser wants it: `1/3 second`."""
    head = starts.rstrip("abcdefghijklmnopqrstuvwxyz")
    if head.split("/")[-1].strip() in ("0", "00"):
        raise ValueError("no time at all")
    unit = starts[len(head) :]
    return f"{head} {UNITS.get(unit, unit)}"


def _rate(amount: int, seconds: int, burst: int) -> Rate:
    if amount < 1 or burst < 1:
        raise ValueError("a rate lets at least one through")
    return Rate(seconds / amount, burst)
