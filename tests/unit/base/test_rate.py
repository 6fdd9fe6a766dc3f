"""Rates: the notation, and that starts conform exactly."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queuemgr.base.errors import BadInput
from queuemgr.base.rate import Rate, parse_rate


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("", None),
        ("  ", None),
        ("1/3s", Rate(3.0)),
        ("1/s", Rate(1.0)),
        ("50/s burst 100", Rate(0.02, 100)),
        ("10000/h", Rate(0.36)),
        ("2/1m burst 3", Rate(30.0, 3)),
        ("3/d", Rate(28_800.0)),
        ("7/240s burst 2", Rate(240 / 7, 2)),
        ("5 per minute", Rate(12.0)),
        ("1/2 hours BURST 4", Rate(7200.0, 4)),
        ("20/min", Rate(3.0)),
        ("10,000/h", Rate(0.36)),
        ("1 every 2.5 s", Rate(2.5)),
    ],
)
def test_a_rate_is_read_as_people_write_it(text: str, rate: Rate | None) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    "text",
    ["x", "1", "1/", "/s", "0/s", "1/0s", "1/fortnight", "1/s burst 0", "1/s burst -1", "-1/s",
     "1/s burst many", "1/s burst 2 burst 3", "1/s burst ,", "1/0.0s", "9" * 400 + "/s", f"1/{'9' * 400}s"],
)  # fmt: skip
def test_other_rates_are_refused_with_a_quote_and_examples(text: str) -> None:
    with pytest.raises(BadInput, match="is not understood; write it like") as refused:
        parse_rate(text)
    assert repr(text) in str(refused.value)


STARTS = ("1", "2147483647", "2147483648", "9" * 16, "1" * 40, "1" * 4000)
PERIODS = ("s", "0.000000001s", "3660d", "3661d", "999999999months", "1" * 400 + "s")
BURSTS = ("", " burst 1", " burst 2147483647", " burst 2147483648", " burst " + "1" * 40)


@pytest.mark.parametrize("starts", STARTS)
@pytest.mark.parametrize("period", PERIODS)
@pytest.mark.parametrize("burst", BURSTS)
def test_any_rate_is_refused_or_counts_within_dates_and_columns(starts: str, period: str, burst: str) -> None:
    for at_once in (False, True):
        try:
            rate = parse_rate(f"{starts}/{period}{burst}", at_once=at_once)
        except BadInput as refused:
            assert len(str(refused)) < 1500
            continue
        assert rate is not None and 0 < rate.interval <= 3660 * 86_400 and 1 <= rate.burst < 2**31
        assert datetime.now(UTC) + timedelta(seconds=rate.farthest)


class Limit:
    """A limit as the fleet stores it: a clock, and the number of granted starts that have not begun."""

    def __init__(self, rate: Rate) -> None:
        self.rate, self.clock, self.pending = rate, 0.0, 0
        self.begun: list[float] = []

    def grant(self, now: float) -> bool:
        may = self.rate.wait(self.clock - now, self.pending) <= 1e-6
        self.pending += may
        return may

    def begin(self, now: float) -> None:
        self.pending -= 1
        self.clock = max(self.clock, now) + self.rate.interval
        self.begun.append(now)

    def conforms(self) -> bool:
        """At most burst + span / interval starts began in any span."""
        spans = combinations(enumerate(self.begun), 2)
        return all(
            last - first + 1 <= self.rate.burst + (end - start) / self.rate.interval + 1e-3
            for (first, start), (last, end) in spans
        )


rates = st.builds(Rate, st.sampled_from((0.02, 1.0, 10 / 3)), st.integers(1, 5))
moves = st.lists(st.tuples(st.sampled_from("gggbbw"), st.floats(0, 3)), max_size=80)


@given(rates, moves)
@settings(max_examples=200, deadline=None)
def test_starts_conform_to_the_rate_however_late_each_begins(
    rate: Rate, moves: list[tuple[str, float]]
) -> None:
    """g: a start is granted if it may be; b: a granted one begins; w: a granted one is revoked."""
    limit, now = Limit(rate), 1000.0
    for move, intervals in moves:
        now += intervals * rate.interval
        if move == "g":
            limit.grant(now)
        elif limit.pending and move == "b":
            limit.begin(now)
        elif limit.pending:
            limit.pending -= 1
    assert limit.conforms()


@given(rates, st.integers(1, 50))
@settings(max_examples=100, deadline=None)
def test_continuous_demand_gets_the_burst_at_once_and_then_one_start_per_interval(
    rate: Rate, further: int
) -> None:
    """The returned wait is exact: never too early, and no later than the rate allows."""
    limit, now, granted = Limit(rate), 1000.0, 0
    while granted < rate.burst + further:
        if limit.grant(now):
            limit.begin(now)
            granted += 1
        else:
            now += rate.wait(limit.clock - now, limit.pending)
    assert limit.conforms()
    assert limit.begun.count(1000.0) == rate.burst
    assert now - 1000.0 == pytest.approx(further * rate.interval)
