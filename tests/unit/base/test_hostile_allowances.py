"""Texts of allowances that no one would write: what is taken is read again as it was, and can be counted."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from queuemgr.base.allowance import Allowance, allowances_in, parse_allowance
from queuemgr.base.errors import BadInput
from queuemgr.base.meters import MAX_AMOUNT
from queuemgr.base.stated_allowances import in_normal_form

AMOUNTS = ("5", "1,000", "0.5", "0.000001", "1,,", "0", "1e5", str(MAX_AMOUNT), str(MAX_AMOUNT + 1), "9" * 30)
METERS = ("tokens", "usd", "requests", "coins")
PERIODS = (
    "/second",
    "/minute",
    "/hour",
    "/day",
    "/week",
    "/month",
    " total",
    " in month",
    " per day",
    "/year",
)
OPTIONS = {
    "rolling": ("",),
    "calendar": ("",),
    "burst": (" 5", " 0", f" {MAX_AMOUNT}", " 0.5", " 1e5", ""),
    "in": (" UTC", " Europe/Berlin", " Mars/Base", " os", " ../UTC", " " + "A" * 64, " __init__", ""),
    "from": (
        " 15",
        " 00150",
        " 0031",
        " 015 06:00",
        " 31",
        " 06:00",
        " 24:00",
        " mon",
        " tuesday 23:59",
        " x",
        "",
    ),
    "high": (" 5", " 100%", " 00%", " 101", " %", ""),
    "low": (" 10%", " 100", ""),
    "\x1b[31m": ("",),
}
MOMENTS = (
    datetime(1970, 1, 1, tzinfo=UTC), datetime(2011, 12, 30, 12, tzinfo=UTC),
    datetime(2026, 3, 29, 1, 30, tzinfo=UTC), datetime(2026, 12, 31, 23, 59, tzinfo=UTC),
)  # fmt: skip


def texts() -> Iterator[str]:
    chance = random.Random(20261130)
    for _ in range(4000):
        chosen = chance.choices(tuple(OPTIONS), k=chance.randrange(4))
        options = [option + chance.choice(OPTIONS[option]) for option in chosen]
        first = chance.choice(AMOUNTS) + " " + chance.choice(METERS) + chance.choice(PERIODS)
        yield " ".join([first, *options])


def taken() -> list[Allowance]:
    found = []
    for text in texts():
        try:
            found.append(parse_allowance(text))
        except BadInput as error:
            assert len(str(error)) < 500
    return found


def test_every_text_that_is_taken_is_read_again_as_it_was() -> None:
    found = taken()
    assert len(found) > 300
    for allowance in found:
        assert allowances_in(in_normal_form(str(allowance))) == (allowance,)


def test_every_allowance_can_be_counted_whatever_was_reserved_before_an_edit() -> None:
    for allowance in taken():
        for moment in MOMENTS:
            if allowance.rolling:
                for rank in range(3):
                    need = max(1, allowance.usable(rank))
                    wait = allowance.wait(1e18, 10**6 * MAX_AMOUNT, need, rank)
                    assert wait == float("inf") or moment + timedelta(seconds=wait) > moment
                assert moment + timedelta(seconds=allowance.farthest) > moment
            else:
                starts, ends = allowance.period_at(moment)
                assert starts <= moment and (ends is None or moment < ends)
                assert allowance.counted_at(moment)[0] < starts


@pytest.mark.parametrize("day", ["0", "00", "32", "150", "00150", "0031", "1" * 60, "٣", "-1", "1.0"])
def test_a_month_begins_on_a_day_that_months_have(day: str) -> None:
    with pytest.raises(BadInput):
        parse_allowance(f"5 usd/month from {day}")
