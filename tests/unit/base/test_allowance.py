"""Allowances: read as they are written, with periods that follow the calendar of their zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuemgr.base.allowance import (
    PERIODS,
    TOTAL,
    Allowance,
    allowances_in,
    parse_allowance,
    parse_allowances,
)
from queuemgr.base.drawn import Drawn
from queuemgr.base.errors import BadInput
from queuemgr.base.limit_shorthand import of_rate, restated, said_twice, without
from queuemgr.base.rate import book
from queuemgr.base.stated_allowances import in_normal_form

WRITTEN = {
    "30,000 tokens/minute": "30,000 tokens/minute",
    "30000 tokens per minute": "30,000 tokens/minute",
    "  30000   tokens / minute ": "30,000 tokens/minute",
    "60 requests/minute burst 5": "60 requests/minute burst 5",
    "60 requests/minute burst 60": "60 requests/minute",
    "20 usd/day in Europe/Berlin": "20.00 usd/day in Europe/Berlin",
    "20 usd/day from 06:30 in Europe/Berlin": "20.00 usd/day in Europe/Berlin from 06:30",
    "0.5 usd/hour calendar": "0.50 usd/hour calendar",
    "500 usd/month from 15": "500.00 usd/month from 15",
    "500 usd/month from 31 07:00": "500.00 usd/month from 31 07:00",
    "100 usd/week from Tuesday 06:00 high 10% low 20": "100.00 usd/week from tue 06:00 high 10% low 20%",
    "5000 usd in total": "5,000.00 usd in total",
    "1000000 bytes/day rolling": "1,000,000 bytes/day rolling",
    "10 starts per 3 seconds": "10 starts/3 seconds",
    "1 starts every 0.5 hours burst 2": "1 starts/0.5 hours burst 2",
    "2 tokens/14days rolling high 5": "2 tokens/14 days rolling high 5%",
    "1000000 bytes/day rolling burst 1": "1,000,000 bytes/day rolling burst 1",
}


@pytest.mark.parametrize("text", WRITTEN)
def test_an_allowance_has_one_normal_form_which_reads_as_the_same(text: str) -> None:
    assert in_normal_form(text) == WRITTEN[text]
    assert parse_allowance(WRITTEN[text]) == parse_allowance(text)


WRONG = {
    "tokens/minute": "is not understood; write it like",
    "5 tokens": "is not understood",
    "5 tokens/fortnight": "is not understood",
    "-5 tokens/minute": "is not understood",
    "5 tokns/minute": "no meter is called 'tokns'; there are: bytes, requests, starts, tokens, usd",
    "0 tokens/minute": "pause the limit instead",
    "0.0000001 usd/day; 0 usd/week": "pause the limit instead",
    "5 tokens in total rolling": "a total does not refill",
    "5 tokens/2 days": "only a rolling allowance is of several periods",
    "5 tokens/0 seconds": "a period lasts longer than nothing",
    "1 tokens/999999999 hours": "takes longer to refill than 3,660 days",
    "5 tokens/day burst 2": "only a rolling allowance has a burst",
    "5 tokens/minute burst 0": "a burst is at least 1",
    "1 tokens/hour burst 9,000,000": "a burst takes longer to refill than 3,660 days",
    "5 tokens/minute in UTC": "are for calendar days, weeks and months",
    "5 tokens/day in Nowhere/Else": "time zone 'Nowhere/Else' is not known",
    "5 tokens/day from 25:00": "is no time of day",
    "5 tokens/week from 15": "does not begin from '15'",
    "5 tokens/month from 32": "does not begin from '32'",
    "5 tokens/month from ²": "does not begin from",
    "5 tokens/day high 101%": "is no percentage",
    "5 tokens/day high": "is no percentage",
    "5 tokens/day soon": "'soon' is not understood",
    "5 tokens/day low 1 low 2": "low and low: say one",
    "5 tokens/day rolling calendar": "rolling and calendar: say one",
    "5 tokens/day; 6 tokens/day": "tokens/day is said twice",
    "9999999999999999 tokens/day": "is out of range",
    "; ".join(["1 tokens/day"] * 21): "20 allowances at most, not 21",
    "5 tokens/day " + "x " * 300: "is not understood",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_cannot_be_read_is_refused_with_what_is_wrong(text: str) -> None:
    with pytest.raises(BadInput, match=WRONG[text].replace("(", r"\(")):
        parse_allowances(text)


@pytest.mark.parametrize(
    "text", ["2.5 tokens/minute", "5 tokens/day; 0.0000001 usd/day", "5 usd/hour burst 1.0000005"]
)
def test_an_amount_that_would_be_rounded_up_is_refused_but_in_a_row(text: str) -> None:
    with pytest.raises(BadInput, match=r"is finer than (1|0\.000001), the least that is counted of"):
        in_normal_form(text)
    assert parse_allowances(text)


def test_an_allowance_that_only_a_newer_release_can_read_allows_nothing() -> None:
    known, unknown = allowances_in("5 tokens/day; 7 parsecs/day")
    assert known == parse_allowance("5 tokens/day")
    assert (unknown.meter, unknown.usable(0)) == ("parsecs", 0)


ZONES = ["UTC", "Europe/Berlin", "America/Santiago", "Asia/Kolkata", "Australia/Lord_Howe", "Africa/Cairo"]
MOMENTS = st.integers(0, 4 * 365 * 86_400).map(
    lambda second: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
)
CALENDAR = [
    "1 usd/day", "1 usd/day from 06:30", "1 usd/week", "1 usd/week from sun 23:59", "1 usd/month",
    "1 usd/month from 31", "1 usd/month from 15 02:30", "1 usd/hour calendar", "1 usd/minute calendar",
]  # fmt: skip


@given(MOMENTS, st.sampled_from(ZONES), st.sampled_from(CALENDAR))
def test_each_moment_is_in_one_period_and_the_next_begins_when_it_ends(
    moment: datetime, zone: str, text: str
) -> None:
    allowance = parse_allowance(text)
    starts, ends = allowance.period_at(moment, zone)
    assert ends is not None and starts <= moment < ends
    assert allowance.period_at(starts, zone) == allowance.period_at(ends - timedelta(microseconds=1), zone)
    assert allowance.period_at(ends, zone).starts == ends


@pytest.mark.parametrize(
    ("text", "moment", "starts", "ends"),
    [
        (
            "1 usd/day in Europe/Berlin",
            "2026-03-29 12:00",
            "2026-03-28 23:00",
            "2026-03-29 22:00",
        ),  # 23 hours
        (
            "1 usd/day in Europe/Berlin",
            "2026-10-25 12:00",
            "2026-10-24 22:00",
            "2026-10-25 23:00",
        ),  # 25 hours
        ("1 usd/day in America/Santiago", "2026-09-06 12:00", "2026-09-06 04:00", "2026-09-07 03:00"),
        ("1 usd/week", "2026-11-29 12:00", "2026-11-23 00:00", "2026-11-30 00:00"),
        ("1 usd/month from 31", "2026-03-01 00:00", "2026-02-28 00:00", "2026-03-31 00:00"),
        ("1 usd/month from 31", "2026-04-29 00:00", "2026-03-31 00:00", "2026-04-30 00:00"),
    ],
)
def test_periods_begin_when_their_calendar_says(text: str, moment: str, starts: str, ends: str) -> None:
    period = parse_allowance(text).period_at(_at(moment))
    assert period == (_at(starts), _at(ends))


def test_a_total_never_ends() -> None:
    assert parse_allowance("1 usd in total").period_at(_at("2026-01-01 00:00")).ends is None
    assert {parse_allowance(f"1 usd/{p}" if p != TOTAL else "1 usd in total").period for p in PERIODS} == set(
        PERIODS
    )


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo("UTC"))


USES = st.lists(st.tuples(st.floats(0, 90), st.integers(1, 900)), min_size=1, max_size=60)


@given(USES, st.sampled_from(["1000 tokens/minute", "1000 tokens/minute burst 900"]))
def test_what_a_rolling_allowance_books_fits_a_bucket_that_refills(
    uses: list[tuple[float, int]], text: str
) -> None:
    """A bucket of the burst, refilled continuously: how providers enforce tokens per minute."""
    allowance, clocks, now = parse_allowance(text), {"c": 0.0}, 1e9
    level, at = float(allowance.burst), now
    for pause, amount in uses:
        now += pause
        now += allowance.wait(clocks["c"] - now, 0, amount)
        start = book(clocks, {"c": Drawn(allowance, amount)}, now)
        assert start - now < 1e-6, "it was waited for"
        level = min(allowance.burst, level + (start - at) / allowance.interval) - amount
        at = start
        assert level > -1e-3


def test_no_wait_lets_more_through_than_a_burst_holds() -> None:
    allowance = parse_allowance("1000 tokens/minute burst 100 high 10%")
    assert allowance.wait(-5, 0, 101, rank=0) == float("inf")
    assert allowance.wait(-5, 0, 100, rank=0) == 0
    assert allowance.wait(-5, 0, 91, rank=1) == float("inf")
    assert allowance.wait(-5, 50, 50, rank=1) == pytest.approx(10 * 0.06)


def test_an_overrun_is_waited_for_and_a_clock_left_by_a_machine_ahead_of_time_is_not() -> None:
    allowance = Allowance("tokens", 1000, "minute", rolling=True, burst=1000)
    overrun = 5_000 * allowance.interval
    assert allowance.wait(overrun, 0, 1) == pytest.approx(overrun + (1 - 1000) * allowance.interval)
    assert allowance.wait(86_400 * 365, 0, 1) < 3600 + 61


@pytest.mark.parametrize(
    ("rate", "as_allowance"),
    [
        ("1/3s", "1 starts/3 seconds"),
        ("50/s burst 100", "50 starts/second burst 100"),
        ("10000/h", "10,000 starts/hour burst 1"),
        ("20/m, burst 3", "20 starts/minute burst 3"),
        ("7/d", "7 starts/day rolling burst 1"),
    ],
)
def test_a_rate_can_be_written_as_the_allowance_it_is_and_both_say_the_same(
    rate: str, as_allowance: str
) -> None:
    (short,), long = of_rate(rate), parse_allowance(as_allowance)
    assert (short.interval, short.burst, short.farthest) == (long.interval, long.burst, long.farthest)
    twice = said_twice(f"5 tokens/hour; {as_allowance}", rate, None)
    assert twice and f"the rate {rate} and the allowance {as_allowance} say the same" in str(twice)
    assert said_twice(f"{as_allowance}; 9 requests/hour", "3/5s", 9) is None
    assert without(f"5 tokens/hour; {as_allowance}", twice.allowance) == "5 tokens/hour"


NAMES = ("tokens/minute", "usd/day", "requests/hour", "bytes/week")
STATED = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 3), max_size=4)


@given(STATED, STATED, STATED)
def test_allowances_are_stated_one_by_one(
    now: dict[str, int], before: dict[str, int], after: dict[str, int]
) -> None:
    """What is stated otherwise than before counts; what a person changed, added or removed stays."""
    texts = ["; ".join(f"{amount} {name}" for name, amount in some.items()) for some in (now, before, after)]
    expected = {
        name: after.get(name) if before.get(name) != after.get(name) else now.get(name) for name in NAMES
    }
    for name in NAMES:
        if name in before and name not in after and now.get(name) != before[name]:
            expected[name] = now.get(name)  # a person's, which no code states any more
    found = {each.name: each for each in parse_allowances(restated(*texts))}
    wanted = "; ".join(f"{amount} {name}" for name, amount in expected.items() if amount)
    assert found == {each.name: each for each in parse_allowances(wanted)}
