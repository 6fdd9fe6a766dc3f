"""The error of estimates is measured from what was known at each moment."""

from __future__ import annotations

import pytest

from bench.estimates import MOMENTS, Piece, compared, measured


def pieces(pace: float = 10.0) -> list[Piece]:
    """One slot, one piece after the other."""
    return [Piece(0.0, n * pace, (n + 1) * pace, 1) for n in range(600)]


def test_what_goes_on_as_before_is_estimated_as_it_happens() -> None:
    found = compared(pieces())
    assert {*found} == {
        "start of an execution", "end of an execution", "end of a phase's work", "end of a budget",
    }  # fmt: skip
    for what, ratios in found.items():
        assert measured("", what, ratios).p90 < 0.05, what


def test_the_error_is_relative_to_the_time_until_it_happened() -> None:
    twice_as_slow = [Piece(0.0, p.started * 2, p.ended * 2, 1) for p in pieces()]
    until = 300 * 10.0
    changing = [*pieces()[:300], *(p._replace(started=p.started - until, ended=p.ended - until)
                                   for p in twice_as_slow[300:])]  # fmt: skip
    ratios = compared(changing)["end of a phase's work"]
    assert ratios[0] == pytest.approx(2 / 3, rel=0.1) and len(ratios) == MOMENTS - 1


def test_eight_of_ten_are_in_the_range() -> None:
    found = measured("", "", [1 / (n / 10) for n in range(5, 16)])
    assert (found.low, found.high) == (pytest.approx(0.6), pytest.approx(1.4))
