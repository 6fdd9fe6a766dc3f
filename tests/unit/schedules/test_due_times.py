"""When schedules are due, above all on days on which clocks change: compared with a walk minute by minute."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuemgr.schedules.due_times import DueTimes, latest, next_due, upcoming
from queuemgr.schedules.timing import Timing, cron, every, once
from tests.unit.schedules.clock_changes import Change, changes, local, minutes

AROUND = timedelta(hours=5)
START = datetime(2026, 3, 1, tzinfo=UTC)


@cache
def all_changes() -> list[Change]:
    return changes(2025, 2026)


def due_in(timing: Timing, start: datetime, end: datetime) -> list[datetime]:
    """Its due times after `start` and until `end`, one by one."""
    found, at = [], next_due(timing, start, start)
    while at is not None and at <= end:
        found.append(at)
        at = next_due(timing, at, start)
    return found


def test_the_tz_database_has_changes_of_every_kind() -> None:
    jumps = {change.jump for change in all_changes()}
    assert {timedelta(hours=1), timedelta(hours=-1), timedelta(minutes=30), timedelta(minutes=-30)} <= jumps
    assert len(all_changes()) > 50


@pytest.mark.parametrize("step", [1, 7, 30])
def test_what_recurs_is_due_at_each_moment_its_local_time_names_on_every_day_of_a_change(step: int) -> None:
    for change in all_changes():
        start, end = change.at - AROUND, change.at + AROUND
        expected = [m for m in minutes(start, end) if local(m, change.zone).minute % step == 0]
        assert due_in(cron(f"*/{step} * * * *", zone=change.zone), start, end) == expected, str(change)


def test_what_recurs_in_some_hours_is_due_at_each_of_their_moments() -> None:
    for change in all_changes():
        start, end = change.at - AROUND, change.at + AROUND
        for hour in {local(change.at + timedelta(hours=h), change.zone).hour for h in (-2, -1, 0, 1)}:
            named = [m for m in minutes(start, end) if local(m, change.zone).hour == hour]
            expected = [m for m in named if local(m, change.zone).minute % 10 == 0]
            timing = cron(f"*/10 {hour} * * *", zone=change.zone)
            assert due_in(timing, start, end) == expected, f"{change} {timing}"


def test_each_local_time_of_the_day_of_a_change_is_due_once() -> None:
    for change in all_changes():
        start, end = change.at - AROUND, change.at + AROUND
        day = local(change.at, change.zone).date()
        walked = [(m, local(m, change.zone)) for m in minutes(start, end)]
        first = {there: m for m, there in reversed(walked)}
        for number in range(-150, 151, 15):
            there = datetime.combine(day, datetime.min.time()) + (
                local(change.at, change.zone) - datetime.combine(day, datetime.min.time())
            )
            there += timedelta(minutes=number)
            timing = cron(f"{there.minute} {there.hour} {there.day} {there.month} *", zone=change.zone)
            expected = first.get(there, change.at)  # never shown by a clock: when the clocks jumped over it
            assert due_in(timing, start, end) == [expected], f"{change} {there}"


def test_a_daily_time_is_due_once_on_every_local_day_of_two_years() -> None:
    for zone in (
        "Europe/Paris",
        "America/New_York",
        "Australia/Lord_Howe",
        "Africa/Cairo",
        "Africa/Casablanca",
    ):
        for hour, minute in ((0, 5), (1, 30), (2, 30), (12, 0)):
            due = due_in(cron(f"{minute} {hour} * * *", zone=zone), START, START + timedelta(days=700))
            days = [local(at, zone).date() for at in due]
            assert days == [days[0] + timedelta(days=n) for n in range(len(days))], f"{zone} {hour}:{minute}"
            assert len(days) in (700, 701)


@given(
    step=st.integers(1, 59),
    seconds=st.integers(0, 3_000_000),
    microseconds=st.integers(0, 999_999),
    change=st.deferred(lambda: st.sampled_from(all_changes())),
)
def test_the_next_due_time_is_the_same_from_wherever_one_asks(
    step: int, seconds: int, microseconds: int, change: Change
) -> None:
    timing = cron(f"*/{step} * * * *", zone=change.zone)
    after = change.at + timedelta(seconds=seconds - 1_500_000, microseconds=microseconds)
    due = next_due(timing, after, after)
    assert due is not None
    assert due > after
    assert next_due(timing, due - timedelta(microseconds=1), after) == due


def test_an_interval_counts_elapsed_time_from_when_it_came_into_force() -> None:
    timing = every(hours=6, zone="Europe/Berlin")
    anchor = datetime(2026, 3, 28, 22, 17, tzinfo=UTC)
    assert upcoming(timing, anchor, anchor, 3) == [anchor + timedelta(hours=6 * n) for n in (1, 2, 3)]
    assert next_due(timing, anchor + timedelta(hours=13), anchor) == anchor + timedelta(hours=18)


def test_one_moment_is_due_once() -> None:
    at = datetime(2026, 12, 1, 3, tzinfo=UTC)
    assert upcoming(once(at), START, START, 5) == [at]
    assert next_due(once(at), at, START) is None


def test_days_that_are_left_out_are_those_of_the_zone() -> None:
    timing = cron("0 */6 * * *", zone="Asia/Tokyo", exclude=["2026-03-02", "sat", "03-05"])
    days = [local(at, "Asia/Tokyo").date() for at in due_in(timing, START, START + timedelta(days=8))]
    assert set(days) == {date(2026, 3, n) for n in (1, 3, 4, 6, 8, 9)}


def test_a_timing_whose_days_are_all_left_out_is_never_due() -> None:
    weekdays = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
    assert next_due(cron("* * * * *", exclude=weekdays), START, START) is None


@given(period=st.integers(1, 5000), most=st.integers(1, 20), late=st.integers(0, 200_000))
def test_the_latest_due_times_are_the_end_of_all(period: int, most: int, late: int) -> None:
    timing = every(seconds=period)
    first, until = START + timedelta(seconds=period), START + timedelta(seconds=period + late)
    count = late // period + 1
    expected = tuple(first + timedelta(seconds=period * n) for n in range(max(count - most, 0), count))
    assert latest(timing, first, until, START, most) == DueTimes(expected, count > most)


def test_the_latest_due_times_of_a_year_of_seconds_are_found_without_counting_all() -> None:
    until = START + timedelta(days=365)
    due = latest(every(seconds=1), START + timedelta(seconds=1), until, START, 3)
    assert due == DueTimes(tuple(until - timedelta(seconds=n) for n in (2, 1, 0)), has_earlier=True)


def test_a_rare_local_time_is_found_years_ahead() -> None:
    assert next_due(cron("0 12 29 2 *", zone="Europe/Berlin"), START, START) == datetime(
        2028, 2, 29, 11, tzinfo=UTC
    )
