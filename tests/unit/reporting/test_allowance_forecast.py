"""Forecasts of allowances: exact about periods and refill, compared with playing small pieces of work."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat

import pytest

from queuemgr.base.allowance import Allowance, parse_allowance
from queuemgr.flows.flow import HIGH, LOW, NORMAL
from queuemgr.reporting.allowance_forecast import (
    ENOUGH,
    NEVER_ANEW,
    NO_PACE,
    NOTHING_WAITS,
    TOO_FAR,
    TOO_LARGE,
    Forecast,
    Need,
    forecast,
)
from queuemgr.reporting.allowances import AllowanceStatus

NOON = datetime(2026, 3, 28, 12, 0, tzinfo=UTC)
"""The day before clocks change in Berlin: the period that begins at 23:00 UTC has 23 hours."""


def ahead(text: str, used: int, *needs: Need, hour: float = 0, zone: str = "UTC") -> Forecast:
    return forecast(parse_allowance(text), used, needs, hour / 3600, zone, NOON)


def at(day: int, hour: float, month: int = 3) -> datetime:
    return datetime(2026, month, day, tzinfo=UTC) + timedelta(hours=hour)


def test_only_what_waits_counts_however_fast_it_was_used_lately() -> None:
    found = ahead("100 tokens/day", 60, hour=50)
    assert (found.runs_out_at, found.done_at, found.because) == (None, None, NOTHING_WAITS)
    found = ahead("100 tokens/day", 60, Need(NORMAL, 10, 4), hour=20)
    assert (found.runs_out_at, found.done_at, found.because) == (None, at(28, 14), ENOUGH)


def test_it_runs_out_and_goes_on_when_it_begins_anew_in_its_zone() -> None:
    found = ahead("100 tokens/day in Europe/Berlin", 60, Need(NORMAL, 10, 9), hour=20)
    assert (found.runs_out_at, found.done_at) == (at(28, 14), at(28, 23 + 2.5))
    found = ahead("100 tokens/day", 60, Need(NORMAL, 10, 19), hour=20, zone="Europe/Berlin")
    assert found.done_at == at(29, 22 + 2.5), "the period of 23 hours in between"
    found = ahead("100 tokens/month from 15 06:00", 60, Need(NORMAL, 10, 9), hour=20)
    assert found.done_at == at(15, 6 + 2.5, month=4)


def test_what_is_left_for_each_priority_is_what_it_may_use() -> None:
    needs = (Need(HIGH, 5, 8), Need(NORMAL, 5, 2), Need(LOW, 5, 2))
    found = ahead("100 tokens/day high 30% low 60%", 0, *needs, hour=10)
    assert (found.runs_out_at, found.done_at) == (at(28, 17), at(29, 1)), "low work finds 40 used"


def test_without_a_pace_it_says_what_is_sure() -> None:
    found = ahead("100 tokens/day", 100, Need(NORMAL, 10, 11))
    assert (found.runs_out_at, found.done_at, found.because) == (NOON, at(30, 0), "")
    found = ahead("100 tokens/day", 0, Need(NORMAL, 10, 11))
    assert (found.runs_out_at, found.done_at, found.because) == (None, at(29, 0), NO_PACE)
    found = ahead("60 tokens/minute", 0, Need(NORMAL, 10, 12))
    assert (found.runs_out_at, found.done_at, found.because) == (None, NOON + timedelta(seconds=60), NO_PACE)


def test_what_can_never_start_is_no_remaining_work() -> None:
    found = ahead("100 tokens in total", 0, Need(NORMAL, 101, 3), Need(NORMAL, 10, 2), hour=20)
    assert (found.never, found.waiting, found.done_at, found.because) == (303, 20, at(28, 13), TOO_LARGE)
    assert ahead("9 tokens/hour", 0, Need(NORMAL, 10, 1)).because == TOO_LARGE
    assert "30 wait for it" in ahead("9 tokens/hour", 0, Need(NORMAL, 10, 3)).text("tokens", NOON)


def test_ends_that_are_not_known_are_no_times() -> None:
    total = ahead("100 tokens in total", 60, Need(NORMAL, 10, 5), hour=20)
    assert (total.runs_out_at, total.done_at, total.because) == (at(28, 14), None, NEVER_ANEW)
    for text in ("10 tokens/day", "10 tokens/minute", "10 tokens/minute calendar"):
        found = ahead(text, 0, Need(NORMAL, 1, 2**50), hour=3600)
        assert (found.done_at, found.because) == (None, TOO_FAR), text


def test_a_clocked_period_is_played_in_one_step_however_many_there_are() -> None:
    found = ahead("10 tokens/second calendar", 4, Need(NORMAL, 1, 10**6 + 6), hour=3600 * 100)
    assert found.done_at == NOON + timedelta(seconds=100_000 + 0.1)


def played(allowance: Allowance, used: int, needs: list[Need], per_second: float, zone: str) -> float:
    """Seconds until the last has begun, part by part: of each rank in turn, at this pace at most."""
    now, level, refill = 0.0, float(used), 1 / allowance.interval if allowance.rolling else 0.0
    ends = allowance.period_at(NOON, zone).ends if not allowance.rolling else None
    for need in sorted(chain.from_iterable(repeat(n, n.executions * n.each) for n in needs)):
        while True:
            room = allowance.usable(need.rank) - level
            if allowance.rolling and room < 1 - 1e-9:
                now, level = now + (1 - room) / refill, level - (1 - room)
            elif not allowance.rolling and ends and NOON + timedelta(seconds=now + 1 / per_second) > ends:
                now, level = (ends - NOON).total_seconds(), 0.0
                ends = allowance.period_at(ends, zone).ends
            elif room < 1 - 1e-9:
                assert ends
                now, level = (ends - NOON).total_seconds(), 0.0
                ends = allowance.period_at(ends, zone).ends
            else:
                break
        now, level = now + 1 / per_second, max(0.0, level + 1 - refill / per_second)
    return now


@pytest.mark.parametrize("seed", range(120))
def test_the_end_is_that_of_playing_it_part_by_part(seed: int) -> None:
    chance = random.Random(seed)
    most = chance.randint(20, 60)
    kind = chance.choice(
        [
            "/hour",
            "/minute",
            "/day in Europe/Berlin",
            "/day calendar",
            f"/hour burst {most // 2}",
            "/hour calendar",
        ]
    )
    allowance = parse_allowance(
        f"{most} tokens{kind} high {chance.choice((0, 20))}% low {chance.choice((0, 50))}%"
    )
    needs = [Need(rank, 1, chance.randint(0, 90)) for rank in (HIGH, NORMAL, LOW)]
    pace, used = chance.choice((0.5, 3, 50)) / 600, chance.randint(0, 2 * most)
    found = forecast(allowance, used, needs, pace, "UTC", NOON)
    if not sum(need.executions for need in needs):
        return
    assert found.done_at is not None, found
    took = (found.done_at - NOON).total_seconds()
    part = max(1 / pace, allowance.interval if allowance.rolling else 0)
    periods = len(needs) * 3 + took / 3600
    assert took == pytest.approx(played(allowance, used, needs, pace, "UTC"), abs=periods * part)


def test_an_alarm_says_what_is_left_and_what_waits() -> None:
    day = parse_allowance("1 usd/day")
    cases = (
        (10**6, 0, "is used up, begins"),
        (920_000, 0, "92 % of"),
        (500_000, 6, "0.60 wait for it, 0.50 are"),
    )
    for used, executions, text in cases:
        resets = at(29, 0)
        found = forecast(day, used, [Need(NORMAL, 100_000, executions)], 100, "UTC", NOON)
        status = AllowanceStatus(day, used, 0, resets, None, 0, found)
        assert status.runs_out_soon(90)
        assert text in status.alarm("tenant:acme", NOON)
    assert not AllowanceStatus(day, 890_000, 0, at(29, 0), None, 0).runs_out_soon(90)
    assert not AllowanceStatus(parse_allowance("1 usd/hour"), 10**6, 0, None, NOON, 0).runs_out_soon(90)
