"""Rates, measured where work begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from proof.records import History, Rate
from proof.rules.violation import Violation

RATE_SECONDS = 0.05
"""Seconds by which a start may seem too early: one clock, read in two places."""


def rates_are_kept(history: History) -> Iterator[Violation]:
    """Starts under a limit conform to its rate (GCRA), measured where work begins."""
    for rate in history.rates:
        starts = sorted(a.started for a in history.attempts if rate.limit in a.names)
        for early in too_early(starts, rate):
            yield Violation("rate", f"a start under {rate.limit} came {early:.3f} s too early")


def too_early(starts: Iterable[float], rate: Rate, tolerance: float = RATE_SECONDS) -> list[float]:
    """By how many seconds each start that does not conform was too early; the starts are in order.

    At most `burst + t * starts / period` starts conform in any span of t seconds.
    """
    interval = rate.period / rate.starts
    clock, early = float("-inf"), []
    for start in starts:
        allowed = clock - (rate.burst - 1) * interval
        if start + tolerance < allowed:
            early.append(allowed - start)
        clock = max(clock, start) + interval
    return early
