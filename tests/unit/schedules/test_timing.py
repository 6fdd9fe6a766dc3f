"""What a timing may say, and the text of it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from queuemgr import BadInput, ConfigurationError
from queuemgr.schedules.timing import Timing, cron, every, once, parse

WRITTEN: list[tuple[Timing, str]] = [
    (cron("*/5 * * * *"), "cron */5 * * * * in UTC"),
    (cron(" 30  3 * *  mon-fri ", zone="Europe/Berlin"), "cron 30 3 * * mon-fri in Europe/Berlin"),
    (cron("@daily", exclude=["12-25", "Sat"]), "cron 0 0 * * * in UTC except 12-25,sat"),
    (every(minutes=5), "every 5m from start"),
    (every(days=1, hours=1), "every 25h from start"),
    (every(seconds=90, measured="from end"), "every 90s from end"),
    (
        every(hours=1, zone="Asia/Tokyo", exclude=["2026-12-24/2027-01-06"]),
        "every 1h from start in Asia/Tokyo except 2026-12-24/2027-01-06",
    ),
    (once(datetime(2026, 12, 1, 3, tzinfo=UTC)), "once 2026-12-01T03:00:00+00:00"),
]


@pytest.mark.parametrize(("timing", "text"), WRITTEN)
def test_a_timing_is_read_from_its_text(timing: Timing, text: str) -> None:
    assert str(timing) == text
    assert parse(text) == timing


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("cron @hourly", "cron 0 * * * * in UTC"),
        ("every 90 min", "every 90m from start"),
        ("every 2 hours from end", "every 2h from end"),
        ("cron @yearly in Europe/Rome except  05-01, sun", "cron 0 0 1 1 * in Europe/Rome except 05-01,sun"),
        ("once 2026-12-01T04:00:00+01:00", "once 2026-12-01T03:00:00+00:00"),
    ],
)  # fmt: skip
def test_people_may_write_it_in_other_ways(text: str, same: str) -> None:
    assert str(parse(text)) == same


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "write 'cron"),
        ("daily", "write 'cron"),
        ("cron * * * *", "has 4 fields"),
        ("cron 0 0 0 * * *", "has 6 fields"),
        ("cron 61 * * * *", "bad minute"),
        ("cron 0 0 30 2 *", "bad day-of-month"),
        ("cron 0 0 * * mon in Mars/Base", "time zone 'Mars/Base' is not known"),
        ("cron 0 0 * * * except 13-45", "exclude '13-45' is none of"),
        ("cron 0 0 * * * except 2026-12-24/2026-12-01", "is none of"),
        ("every 0s", "from 1 s to ten years"),
        ("every 99999999d", "from 1 s to ten years"),
        ("every minute", "write a number and"),
        ("once tomorrow", "is no time"),
        ("once 2026-12-01T03:00:00", "time zone"),
        ("cron " + "1," * 300 + "1 * * * *", "write 'cron"),
    ],
)
def test_what_is_no_timing_is_refused_and_says_what_to_write(text: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        parse(text)


def test_code_gets_the_error_at_its_import() -> None:
    with pytest.raises(ConfigurationError, match="is never due"):
        cron("* * */20 * 1L")
    with pytest.raises(ConfigurationError, match="measured='sometimes'"):
        every(minutes=1, measured="sometimes")
    with pytest.raises(ConfigurationError, match="whole seconds"):
        every(seconds=0.5)
    with pytest.raises(ConfigurationError, match="write a list"):
        cron("@daily", exclude="12-25")
    with pytest.raises(ConfigurationError, match="time zone"):
        once(datetime(2026, 1, 1))  # noqa: DTZ001  # that is what is refused
