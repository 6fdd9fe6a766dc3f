"""Histograms of seconds in fixed buckets: small enough to keep for every minute, and to be added up.

A histogram is a list of `len(BOUNDS) + 1` counts; the last bucket has no upper end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

BOUNDS: tuple[float, ...] = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
    1800.0, 3600.0, 7200.0, 21_600.0, 43_200.0, 86_400.0,
)  # fmt: skip
"""Upper ends of the buckets in seconds, each included. Rows already written have these: changing them
makes old histograms unreadable."""


def empty() -> list[int]:
    """A histogram of nothing."""
    return [0] * (len(BOUNDS) + 1)


def count_into(counts: list[int], seconds: float) -> None:
    """Count one duration into its bucket; one below 0 (a clock set back) is taken for 0."""
    counts[bisect_left(BOUNDS, seconds)] += 1


def merge(many: Iterable[Sequence[int]]) -> list[int]:
    """The sum of histograms; an empty list is a histogram of nothing."""
    total = empty()
    for counts in many:
        for place, count in enumerate(counts):
            total[place] += count
    return total


def percentile(counts: Sequence[int], q: float) -> float | None:
    """The duration below which a part `q` (0 to 1) of them lies, in seconds; None when there are none.

    Within a bucket they are taken to lie evenly, as Prometheus' `histogram_quantile` does; what lies
    in the last bucket is told as its lower end, so the answer is never more than the last bound.
    """
    total = sum(counts)
    if not total:
        return None
    wanted, below = q * total, 0
    for place, count in enumerate(counts[: len(BOUNDS)]):
        if count and below + count >= wanted:
            lower = BOUNDS[place - 1] if place else 0.0
            return lower + (BOUNDS[place] - lower) * max(0.0, wanted - below) / count
        below += count
    return BOUNDS[-1]
