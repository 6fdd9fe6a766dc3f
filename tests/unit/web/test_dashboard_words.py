"""How the board writes durations, times and rates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from queuemgr.reporting.dashboard.limit_bars import pace_text
from queuemgr.reporting.dashboard.worker_table import lanes
from queuemgr.web.templatetags.dashboard import clock, number, percent, span

NOW = datetime(2026, 3, 1, 14, 32, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, ""), (0, "0 s"), (0.04, "40 ms"), (3.21, "3.2 s"), (59.4, "59 s"), (61, "1 min"),
        (3599, "59 min"), (3600, "1 h"), (4320, "1 h 12 min"), (90_000, "1 d 1 h"),
        (timedelta(days=3), "3 d"), (9.99, "10.0 s"), (59.9, "60 s"),
    ],
)  # fmt: skip
def test_durations_are_said_in_their_two_largest_units(seconds: float | timedelta | None, said: str) -> None:
    assert span(seconds) == said


@pytest.mark.parametrize(
    ("interval", "said"),
    [(0.02, "50/s"), (1, "1/s"), (3, "20/min"), (7, "1 every 7 s"), (3600, "1/h"), (0.36, "10,000/h")],
)
def test_rates_are_said_as_people_write_them(interval: float, said: str) -> None:
    assert pace_text(interval) == said


def test_times_of_another_day_have_its_date() -> None:
    assert clock(NOW, NOW) == "14:32"
    assert clock(NOW - timedelta(days=1), NOW) == "28 Feb 14:32"
    assert clock(None, NOW) == ""


def test_figures_are_grouped_and_shares_are_widths() -> None:
    assert number(1204) == "1,204"
    assert [percent(None), percent(0.425), percent(1)] == ["0", "42.5", "100"]


def test_a_phase_named_alone_stands_for_all_its_priorities() -> None:
    assert lanes(["prep.low", "prep.high", "prep.normal", "wrap.high"]) == "prep, wrap.high"
    assert lanes([]) == "none"
