"""Days of a budget, where clocks change."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from queuemgr.budget_day import day_ends, day_of, zone
from queuemgr.errors import BadInput


@pytest.mark.parametrize(
    ("name", "day", "hours"),
    [
        ("UTC", date(2026, 3, 29), 24),
        ("Europe/Paris", date(2026, 3, 29), 23),
        ("Europe/Paris", date(2026, 10, 25), 25),
        ("America/New_York", date(2026, 3, 8), 23),
        ("America/New_York", date(2026, 11, 1), 25),
        ("Australia/Lord_Howe", date(2026, 10, 4), 23.5),
        ("Africa/Cairo", date(2026, 4, 24), 23),
        ("America/Havana", date(2026, 11, 1), 25),
    ],
)
def test_a_day_is_as_long_as_its_zones_clock_says(name: str, day: date, hours: float) -> None:
    """Cairo's clocks skip midnight, Havana's strike it twice."""
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=zone(name))
    ends = day_ends(noon, name)
    began = day_ends(noon - timedelta(days=1), name)
    assert (ends - began) == timedelta(hours=hours)


@pytest.mark.parametrize(
    "name", ["UTC", "Europe/Paris", "Africa/Cairo", "America/Havana", "Asia/Beirut"]
)
def test_every_moment_of_a_year_is_in_one_day_which_ends_after_it(name: str) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    while moment.year == 2026:
        ends = day_ends(moment, name)
        assert moment < ends
        assert day_of(ends - timedelta(seconds=1), name) == day_of(moment, name)
        assert day_of(ends, name) == day_of(moment, name) + timedelta(days=1)
        moment += timedelta(minutes=90)


def test_an_unknown_zone_is_refused_with_the_remedy() -> None:
    with pytest.raises(BadInput, match="'Mars/Olympus' is not known; use an IANA name"):
        zone("Mars/Olympus")
