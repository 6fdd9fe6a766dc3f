"""Rates: what people write, and the exact rule behind it."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuemgr.errors import BadInput
from queuemgr.rate import Rate, parse_rate


@pytest.mark.parametrize(
    ("written", "interval", "burst"),
    [
        ("1/3s", 3, 1), ("50/s burst 100", 0.02, 100), ("10000/h", 0.36, 1), ("5/m", 12, 1),
        ("5 per minute", 12, 1), ("100000/d burst 5", 0.864, 5), (" 1/S ", 1, 1),
    ],
)  # fmt: skip
def test_a_rate_is_understood_as_people_write_it(written: str, interval: float, burst: int) -> None:
    assert parse_rate(written) == Rate(interval, burst)


def test_no_rate_is_no_limit() -> None:
    assert parse_rate("") is None


@pytest.mark.parametrize(
    "written", ["x", "0/s", "1/0s", "1/s burst 0", "-1/s", "1.5/s", "1/s; 2/m"]
)
def test_what_is_no_rate_is_refused_with_examples(written: str) -> None:
    with pytest.raises(BadInput, match=r"is not understood; write it like \"1/3s\""):
        parse_rate(written)


@given(st.integers(0, 2**32), st.integers(1, 5), st.floats(0.01, 5))
def test_however_late_each_start_begins_the_beginnings_keep_the_rate(
    seed: int, burst: int, interval: float
) -> None:
    """Grants at any time the rule allows, each beginning after a delay of its own: over any span of t
    seconds at most burst + t / interval begin."""
    rng, rate = Random(seed), Rate(interval, burst)
    now, clock = 0.0, 0.0
    pending: list[float] = []
    begun: list[float] = []
    for _ in range(120):
        if rate.wait(clock - now, len(pending)) <= 1e-9:
            pending.append(now + rng.uniform(0, 3 * interval))
        now += rng.uniform(0, interval)
        for late in sorted(p for p in pending if p <= now):
            pending.remove(late)
            clock = max(clock, late) + interval
            begun.append(late)
    begun.sort()
    for first, start in enumerate(begun):
        for last in range(first, len(begun)):
            allowed = burst + (begun[last] - start) / interval
            assert last - first + 1 <= allowed + 1e-6


def test_an_idle_limit_saves_up_no_more_than_its_burst() -> None:
    rate = Rate(1.0, burst=3)
    assert [rate.wait(-1000.0, pending) for pending in range(5)] == [0, 0, 0, 1, 2]
