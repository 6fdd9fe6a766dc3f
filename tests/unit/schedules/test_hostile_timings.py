"""A timing is text from outside: whatever it says, it is refused, or its due times are worked out at once and
within the range of dates."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import cycle, product

import pytest

from queuemgr import BadInput
from queuemgr.schedules.due_times import latest, next_due, upcoming
from queuemgr.schedules.timing import LONGEST_TEXT, parse

NOW = datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC)
MOST_SECONDS = 2.0
"""Of processor time for one timing; what walked through all of the calendar took over twenty."""

RARE = (
    "0 0 29 2 *", "* 0 29 2 *", "59 23 29 2 1#5", "0 0 31 2 0", "0 0 29 2 7#5", "* 0 1 1 *", "0 0 L * *",
    "0 0 LW 2 *", "*/59 */23 31 */11 sat", f"{'0,' * 150}0 * * * *", "* * * * *",
)  # fmt: skip
ZONES = ("UTC", "Europe/Berlin", "Pacific/Kiritimati", "America/Sao_Paulo", "Africa/Casablanca")
LEFT_OUT = (
    "", "02-29", "mon,tue,wed,thu,fri,sat,sun", "0001-01-01/9999-12-31", "2026-12-01/9999-12-30",
    "9999-12-31", "0001-01-01/2026-11-30", "01-01,12-31",
)  # fmt: skip
PERIODS = ("1s", "3660d", "3659d", "86399s", "1d")
MOMENTS = (
    "0001-01-01T00:00:00", "0002-01-01T00:00:00", "0003-06-01T00:00:00", "1969-12-31T23:59:59.999999",
    "9997-01-01T00:00:00", "9998-12-31T00:00:00", "9999-12-31T23:59:59.999999",
)  # fmt: skip
OFFSETS = ("+00:00", "+23:59", "-23:59", "Z", "+14:00:00.000001", "")
NO_TIMINGS = (
    "cron \udcff * * * *", "cron " + "9" * 400 + " * * * *", "cron */" + "9" * 400 + " * * * *",
    "every " + "9" * 13 + "s", "cron * * * * * in ../../etc/passwd", "cron * * * * * in \x00",
    "cron * * * * * in .", "cron * * * * * in America", f"cron {' in ' * 120}", f"cron{' ' * 480}x",
    "cron \u0665 * * * *", "once \u0662\u0660\u0662\u0666-01-01T00:00:00Z",
    "cron * * * * * except \u0662\u0660\u0662\u0666-01-01", f"every 1s except {'02-29,' * 70}x",
)  # fmt: skip


def texts() -> Iterator[str]:
    zones = cycle(ZONES)
    for expression, days in product(RARE, LEFT_OUT):
        yield f"cron {expression} in {next(zones)}" + (f" except {days}" if days else "")
    for period, measured, days in product(PERIODS, ("from start", "from end"), LEFT_OUT):
        yield f"every {period} {measured}" + (f" except {days}" if days else "")
    for moment, offset in product(MOMENTS, OFFSETS):
        yield f"once {moment}{offset}"
    yield from NO_TIMINGS


def worked_out(text: str, now: datetime) -> bool:
    """Its due times, as deciding, planning and showing ask for them; whether it is a timing at all."""
    try:
        timing = parse(text)
    except BadInput:
        return False
    assert parse(str(timing)) == timing, text
    for anchor in (now, now - timedelta(days=3000)):
        first = next_due(timing, anchor, anchor)
        assert first is None or first > anchor, text
        if first is not None and first <= now:
            times = latest(timing, first, now, anchor, 60).times
            assert all(first <= at <= now for at in times), text
    assert all(at.astimezone().year for at in upcoming(timing, now, now, 10)), text
    return True


def test_any_timing_is_refused_or_worked_out_at_once_within_the_range_of_dates() -> None:
    took, accepted = dict[str, float](), 0
    for text in texts():
        began = time.process_time()
        accepted += worked_out(text, NOW)
        took[text] = time.process_time() - began
    assert {text: seconds for text, seconds in took.items() if seconds > MOST_SECONDS} == {}
    assert (len(took) > 200, accepted > 130) == (True, True)


@pytest.mark.parametrize("size", [LONGEST_TEXT, 1_000_000])
@pytest.mark.parametrize(
    "filling", [" ", " in ", " except ", "cron ", "0,", "*/1,", "1d ", "\u2028", "(", "in"]
)
def test_a_text_is_read_in_a_moment_whatever_fills_it(filling: str, size: int) -> None:
    for beginning in ("cron ", "every 1s except ", "cron * * * * * in ", "once "):
        text = (beginning + filling * (size // len(filling)))[:size]
        began = time.process_time()
        worked_out(text, NOW)
        assert time.process_time() - began < 0.5, text[:60]
