"""Histograms of durations in fixed buckets: small enough to store for every minute, and additive.

A histogram is a list of `len(BOUNDS) + 1` counts; the last bucket has no upper bound.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

BOUNDS: tuple[float, ...] = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
    1800.0, 3600.0, 7200.0, 21_600.0, 43_200.0, 86_400.0,
)  # fmt: skip
"""Upper bounds of the buckets in seconds, inclusive. Stored histograms have these bounds: changing them
makes old rows unreadable."""

SHORT_BOUNDS: tuple[float, ...] = (
    0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0,
)  # fmt: skip
"""Those of transactions, which take milliseconds. They name stored sums: dropping one loses its own."""


def empty() -> list[int]:
    return [0] * (len(BOUNDS) + 1)


def count_into(counts: list[int], seconds: float) -> None:
    """Count one duration; a negative one (the clock was set back) counts as 0."""
    counts[bisect_left(BOUNDS, seconds)] += 1


def merge(many: Iterable[Sequence[int]]) -> list[int]:
    """The sum of histograms; an empty list counts as one without durations."""
    filled = (counts for counts in many if counts)
    return [sum(bucket) for bucket in zip(empty(), *filled, strict=True)]


def percentile(counts: Sequence[int], q: float, bounds: Sequence[float] = BOUNDS) -> float | None:
    """The `q` quantile (0 to 1) in seconds; None for an empty histogram.

    Linear within a bucket, as Prometheus' `histogram_quantile`; the last bucket counts as its lower
    bound, so the result is at most the last of `bounds`.
    """
    total = sum(counts)
    if not total:
        return None
    rank, below = q * total, 0
    for bucket, count in enumerate(counts[: len(bounds)]):
        if count and below + count >= rank:
            lower = bounds[bucket - 1] if bucket else 0.0
            return lower + (bounds[bucket] - lower) * max(0.0, rank - below) / count
        below += count
    return bounds[-1]
