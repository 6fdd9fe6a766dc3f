"""Histograms: each duration in one bucket, lossless sums, percentiles within their bucket."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from queuemgr.base.histogram import BOUNDS, count_into, empty, merge, percentile

durations = st.lists(st.floats(-10, 200_000), max_size=50)


def of(seconds: list[float]) -> list[int]:
    counts = empty()
    for one in seconds:
        count_into(counts, one)
    return counts


def test_bounds_rise_from_five_milliseconds_to_a_day() -> None:
    assert all(low < high for low, high in pairwise(BOUNDS))
    assert (BOUNDS[0], BOUNDS[-1]) == (0.005, 86_400.0)
    assert len(empty()) == len(BOUNDS) + 1


def test_a_bound_belongs_to_the_bucket_below_it() -> None:
    assert of([0.005])[0] == 1
    assert of([0.0051])[1] == 1
    assert of([86_400])[-2] == 1
    assert of([86_401])[-1] == 1
    assert of([-3])[0] == 1, "a clock set back"


@given(durations, durations)
def test_histograms_add_up_as_if_counted_in_one(some: list[float], others: list[float]) -> None:
    assert merge([of(some), of(others), []]) == of(some + others)
    assert sum(of(some)) == len(some)


@given(st.lists(st.floats(0, 86_400), min_size=1, max_size=50), st.floats(0, 1))
def test_a_percentile_is_in_the_bucket_of_the_duration_at_its_rank(seconds: list[float], q: float) -> None:
    found = percentile(of(seconds), q)
    assert found is not None
    rank = max(1, -(-int(q * len(seconds) * 1_000_000) // 1_000_000))
    exact = sorted(seconds)[min(rank, len(seconds)) - 1]
    upper = min(bound for bound in BOUNDS if bound >= exact)
    lower = max((bound for bound in BOUNDS if bound < exact), default=0.0)
    assert lower <= found <= upper or q * len(seconds) == int(q * len(seconds))


def test_a_percentile_is_none_without_durations_and_at_most_the_last_bound() -> None:
    assert percentile(empty(), 0.5) is None
    assert percentile(of([100_000] * 3), 0.5) == 86_400


def test_percentiles_grow_with_the_quantile() -> None:
    counts = of([0.01 * n for n in range(1, 1001)])
    found = [percentile(counts, q / 20) or 0.0 for q in range(21)]
    assert found == sorted(found)
    assert abs((percentile(counts, 0.5) or 0) - 5.0) < 0.2
