"""Retry-After in its valid forms, and in invalid ones."""

from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuemgr.steptools.retry_after import LONGEST, http_date, retry_after_seconds

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"), [("120", 120.0), (" 5 ", 5.0), ("0", 0.0), ("1.5", 1.5), ("-3", 0.0), ("+7", 7.0)]
)
def test_seconds_are_read(value: str, seconds: float) -> None:
    """Seconds, also fractional; a negative wait is 0."""
    assert retry_after_seconds(value, NOW) == seconds


@pytest.mark.parametrize(
    "value",
    [
        "Sun, 01 Mar 2026 12:01:00 GMT",
        "Sunday, 01-Mar-26 12:01:00 GMT",
        "Sun Mar  1 12:01:00 2026",
        "Sun, 01 Mar 2026 14:01:00 +0200",
    ],
)
def test_every_form_of_date_gives_the_seconds_until_then(value: str) -> None:
    """The three HTTP forms and a date in another zone."""
    assert retry_after_seconds(value, NOW) == 60.0


def test_a_date_in_the_past_means_no_wait() -> None:
    past = format_datetime(NOW - timedelta(hours=1), usegmt=True)
    assert retry_after_seconds(past, NOW) == 0.0


@pytest.mark.parametrize("value", [None, "", "soon", "12 seconds", "nan", "inf", "1e3", "٣", "5, 6"])
def test_an_unreadable_retry_after_leaves_the_wait_to_the_backoff(value: str | None) -> None:
    assert retry_after_seconds(value, NOW) is None


@pytest.mark.parametrize("value", ["9" * 15, "9" * 400, "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_wait_beyond_every_date_is_unreadable(value: str) -> None:
    """Added to a date it would overflow, and the work would be lost."""
    assert retry_after_seconds(value, NOW) is None


def test_a_long_wait_is_kept_whole() -> None:
    """An hour requested is an hour waited."""
    assert retry_after_seconds("3600", NOW) == 3600.0


@given(st.text())
def test_no_text_raises_and_every_wait_is_in_bounds(value: str) -> None:
    seconds = retry_after_seconds(value, NOW)
    assert seconds is None or 0.0 <= seconds <= LONGEST


@given(st.integers(min_value=0, max_value=int(LONGEST)), st.integers(-12, 12))
def test_a_date_is_read_back_to_the_second(seconds: int, hours: int) -> None:
    when = (NOW + timedelta(seconds=seconds)).astimezone(timezone(timedelta(hours=hours)))
    assert retry_after_seconds(format_datetime(when), NOW) == float(seconds)


def test_a_date_without_a_zone_is_in_gmt() -> None:
    assert http_date("Sun Mar  1 12:00:00 2026") == NOW
