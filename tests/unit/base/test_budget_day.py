"""The day of a budget: a local date of its zone, however long that day is."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queuemgr.base.budget_day import day_ends, day_of, zone
from queuemgr.base.errors import BadInput

TICK = timedelta(microseconds=1)


def begins(day: date, name: str) -> datetime:
    """The start of a day: the end of the one before."""
    before = day - timedelta(days=1)
    noon_before = datetime(before.year, before.month, before.day, 12, tzinfo=ZoneInfo(name))
    return day_ends(noon_before.astimezone(UTC), name)


@pytest.mark.parametrize(
    ("name", "day", "hours"),
    [
        ("UTC", date(2026, 3, 29), 24),
        ("Europe/Berlin", date(2026, 3, 29), 23),
        ("Europe/Berlin", date(2026, 10, 25), 25),
        ("Europe/Berlin", date(2026, 10, 26), 24),
        ("America/New_York", date(2026, 3, 8), 23),
        ("Australia/Lord_Howe", date(2026, 10, 4), 23.5),
        ("Africa/Cairo", date(2024, 4, 26), 23),
        ("Africa/Cairo", date(2024, 10, 31), 25),
        ("America/Havana", date(2024, 3, 10), 23),
        ("America/Havana", date(2024, 11, 3), 25),
        ("Asia/Beirut", date(2024, 3, 31), 23),
        ("Asia/Beirut", date(2024, 10, 26), 25),
    ],
)
def test_a_day_has_23_or_25_hours_when_clocks_change(name: str, day: date, hours: float) -> None:
    ends = day_ends(begins(day, name), name)
    assert ends - begins(day, name) == timedelta(hours=hours)


@pytest.mark.parametrize(
    ("name", "jump"),
    [
        ("Africa/Cairo", datetime(2024, 4, 25, 22, tzinfo=UTC)),
        ("America/Havana", datetime(2024, 3, 10, 5, tzinfo=UTC)),
        ("Asia/Beirut", datetime(2024, 3, 30, 22, tzinfo=UTC)),
    ],
)
def test_where_midnight_is_skipped_the_day_begins_when_the_clocks_jump_over_it(
    name: str, jump: datetime
) -> None:
    assert day_ends(jump - timedelta(hours=3), name) == jump
    assert day_of(jump, name) == day_of(jump - TICK, name) + timedelta(days=1)
    assert jump.astimezone(zone(name)).hour == 1, "there was no midnight"


def test_where_midnight_comes_twice_the_day_begins_with_the_first() -> None:
    first = datetime(2024, 11, 3, 4, tzinfo=UTC)
    assert day_ends(first - TICK, "America/Havana") == first
    assert day_of(first + timedelta(hours=1), "America/Havana") == date(2024, 11, 3)


moments = st.datetimes(datetime(2012, 1, 1), datetime(2036, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - naive by contract
near_changes = st.builds(
    lambda day, minutes: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=day, minutes=minutes),
    st.integers(0, 366), st.integers(-90, 90),
)  # fmt: skip


@given(moments | near_changes, st.sampled_from(sorted(available_timezones())))
@settings(max_examples=300, deadline=None)
def test_in_every_zone_a_time_belongs_to_the_day_that_ends_next(moment: datetime, name: str) -> None:
    ends = day_ends(moment, name)
    assert ends > moment
    assert day_of(ends - TICK, name) == day_of(moment, name)
    assert day_of(ends, name) > day_of(moment, name)
    assert ends - moment <= timedelta(hours=25)


def test_an_unknown_zone_is_refused_by_name() -> None:
    for name in ("Mars/Olympus", "", "../etc/passwd", "Europe"):
        with pytest.raises(BadInput, match="use an IANA name such as Europe/Berlin"):
            zone(name)


@given(
    st.lists(st.sampled_from(["b", "Europe", "..", ".", "", "tzdata", "os", "é", "a b", "\0"]), max_size=400)
)
def test_no_name_of_a_zone_is_taken_for_that_of_a_package_or_a_file(parts: list[str]) -> None:
    before = set(sys.modules)
    with pytest.raises(BadInput):
        zone("/".join(["b", *parts]))
    assert [name for name in set(sys.modules) - before if not name.startswith("tzdata")] == []


def test_every_zone_that_there_is_is_known() -> None:
    assert [name for name in available_timezones() if zone(name).key != name] == []
