"""How the board writes durations, times and rates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from queuemgr.base.rate import Rate, parse_rate
from queuemgr.reporting.dashboard.limit_bars import pace_text
from queuemgr.reporting.dashboard.worker_table import queues_text
from queuemgr.web.templatetags.dashboard import clock, number, percent, span

NOW = datetime(2026, 3, 1, 14, 32, tzinfo=UTC)


def test_a_duration_may_be_missing_or_in_seconds_or_a_timedelta() -> None:
    assert [span(None), span(61), span(timedelta(days=3))] == ["", "1 min 1 s", "3 d"]


@pytest.mark.parametrize(
    ("interval", "expected"),
    [(0.02, "50/s"), (1, "1/s"), (3, "20/min"), (7, "1 every 7 s"), (3600, "1/h"), (0.36, "10,000/h")],
)
def test_rates_are_shown_as_people_write_them(interval: float, expected: str) -> None:
    assert pace_text(interval) == expected


@pytest.mark.parametrize("interval", [0.0001, 0.02, 0.36, 1, 2.5, 3, 7, 240 / 7, 864, 3600, 86_400, 200_000])
def test_a_rate_can_be_entered_as_it_is_shown(interval: float) -> None:
    rate = parse_rate(f"{pace_text(interval)}, burst 1,000")
    assert rate == Rate(pytest.approx(interval, rel=1e-5), 1000)


def test_times_of_another_day_have_its_date() -> None:
    assert clock(NOW, NOW) == "14:32:00 UTC"
    assert clock(NOW - timedelta(days=1), NOW) == "2026-02-28 14:32:00 UTC"
    assert clock(None, NOW) == ""


def test_numbers_are_grouped_by_thousands_and_shares_are_css_widths() -> None:
    assert number(1204) == "1,204"
    assert [percent(None), percent(0.425), percent(1)] == ["0", "42.5", "100"]


def test_a_phase_named_alone_stands_for_all_its_priorities() -> None:
    assert queues_text(["prep.low", "prep.high", "prep.normal", "wrap.high"]) == "prep, wrap.high"
    assert queues_text([]) == "none"
