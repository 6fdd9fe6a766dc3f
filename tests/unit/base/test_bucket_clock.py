"""Clocks of rolling allowances, booked by estimates and settled by use: against a bucket of what was used."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Self

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from queuemgr.base.allowance import Allowance
from queuemgr.base.bucket_clock import MOST_DIPS, Booked, BucketClock, Settlement
from queuemgr.base.drawn import Drawn
from queuemgr.base.rate import book

ALLOWANCE = Allowance("tokens", 60, "minute", rolling=True, burst=20)
"""A token a second, so that amounts are seconds."""


@dataclass
class Call:
    """Begun at `at`, and used so much then; what it used beyond its estimate counts from its end."""

    at: float
    estimate: int
    used: int
    booked: Booked
    ended: float | None = None


class Fleet:
    """Starts whatever fits as soon as it does, with the clock that is tried, and remembers who used what."""

    def __init__(self) -> None:
        self.clock, self.now = BucketClock(), 1e9
        self.calls: list[Call] = []

    @classmethod
    def after(cls, moves: list[tuple[str, int, int]]) -> Self:
        """One that has made these moves; no call has used more than its estimate."""
        fleet = cls()
        for move, number, used in moves:
            if move == "start":
                fleet.start(number, min(used, number))
            elif move == "end":
                fleet.end(number)
            else:
                fleet.now += number
        return fleet

    def start(self, estimate: int, used: int) -> None:
        self.now += ALLOWANCE.wait(self.clock.clock - self.now, 0, estimate)
        clocks = {"c": self.clock.clock}
        book(clocks, {"c": Drawn(ALLOWANCE, estimate)}, self.now)
        self.clock = self.clock.booked(self.now, clocks["c"])
        booked = Booked(estimate * ALLOWANCE.interval, self.clock.bookings)
        self.calls.append(Call(self.now, estimate, used, booked))

    def end(self, which: int) -> None:
        running = [call for call in self.calls if call.ended is None]
        if running:
            call = running[which % len(running)]
            call.ended = self.now
            seconds = (call.used - call.estimate) * ALLOWANCE.interval
            self.clock = self.clock.settled([Settlement(seconds, self.now, call.booked.number)])

    def lowest(self) -> float:
        """How full a bucket was at least that refills evenly and that every call took its use from: an
        overrun, of which nothing could be known, apart."""
        level, at, lowest = float(ALLOWANCE.burst), 1e9, float(ALLOWANCE.burst)
        drawn = [(c.at, min(c.used if c.ended else c.estimate, c.estimate), True) for c in self.calls]
        drawn += [(c.ended, max(0, c.used - c.estimate), False) for c in self.calls if c.ended]
        for when, amount, may_be_refused in sorted(drawn, key=lambda each: each[0]):
            level = min(ALLOWANCE.burst, level + (when - at) / ALLOWANCE.interval) - amount
            at, lowest = when, min(lowest, level) if may_be_refused and amount else lowest
        return lowest

    def missing(self) -> float:
        """What is missing now from a bucket that every call took its use from when it began."""
        level, at = float(ALLOWANCE.burst), 1e9
        for when, amount in sorted((call.at, call.used) for call in self.calls):
            level = min(ALLOWANCE.burst, level + (when - at) / ALLOWANCE.interval) - amount
            at = when
        return max(0.0, ALLOWANCE.burst - level - (self.now - at) / ALLOWANCE.interval)


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.integers(1, 20), st.sampled_from((0, 0, 1, 3, 8, 20))),
        st.tuples(st.just("end"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("pass"), st.integers(1, 25), st.just(0)),
    ),
    max_size=40,
)


@given(MOVES)
@example([("start", 10, 0), ("pass", 10, 0), ("start", 10, 20), ("end", 0, 0), ("start", 20, 20)])
@settings(max_examples=300, deadline=None)
def test_what_is_given_back_never_lets_more_be_used_than_a_bucket_holds(
    moves: list[tuple[str, int, int]],
) -> None:
    """A call that ends after its booking was refilled gives nothing back: the time has done so already."""
    fleet = Fleet.after(moves)
    assert fleet.lowest() > -1e-3


@given(MOVES, st.randoms(use_true_random=False))
@example([("start", 5, 1), ("start", 5, 1), ("start", 5, 1)], Random(1))
@settings(max_examples=300, deadline=None)
def test_when_all_calls_have_ended_in_whatever_order_the_clock_is_that_of_what_they_used(
    moves: list[tuple[str, int, int]], order: Random
) -> None:
    fleet = Fleet.after(moves)
    while any(call.ended is None for call in fleet.calls):
        fleet.end(order.randrange(10))
    assert max(0.0, fleet.clock.clock - fleet.now) == pytest.approx(fleet.missing(), abs=1e-3)


def test_of_very_many_calls_that_run_at_once_none_lets_more_through_than_a_bucket_holds() -> None:
    fleet = Fleet()
    for number in range(500):
        fleet.start(1, number % 2)
        fleet.now += 0.9
    assert len(fleet.clock.dips) <= MOST_DIPS
    for number in range(500):
        fleet.end(number * 7)
        fleet.start(1, 1)
    assert fleet.lowest() > -1e-3


@given(
    st.lists(st.tuples(st.integers(1, 10), st.integers(0, 30)), min_size=1, max_size=15), st.integers(0, 9)
)
@settings(max_examples=100, deadline=None)
def test_without_another_start_meanwhile_all_that_was_not_used_is_given_back_and_all_beyond_is_charged(
    calls: list[tuple[int, int]], after: int
) -> None:
    fleet = Fleet()
    for estimate, used in calls:
        fleet.start(estimate, used)
        booked_to = fleet.clock.clock
        fleet.end(0)
        start = fleet.calls[-1].at
        expected = booked_to - (estimate - used)
        assert fleet.clock.clock == pytest.approx(max(expected, min(start + used, expected)), abs=1e-3)
        fleet.now += after


def test_an_overrun_of_a_long_call_counts_from_its_end_and_not_from_when_its_booking_was_refilled() -> None:
    fleet = Fleet()
    fleet.start(5, 20)
    fleet.now += 3600
    fleet.end(0)
    assert fleet.clock.clock == fleet.now + 15


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 10**6))
def test_an_edit_of_the_amount_keeps_what_is_used(used: int, old: int, new: int) -> None:
    now = 1e9
    before, after = (Allowance("tokens", amount, "hour", rolling=True, burst=10**6) for amount in (old, new))
    clock = BucketClock(pace=before.interval).booked(now, now + used * before.interval)
    edited = clock.at_pace(after.interval, now)
    assert (edited.clock - now) / after.interval == pytest.approx(used, rel=1e-3, abs=1)
    given = Settlement(-used * before.interval, now, clock.bookings, before.interval)
    assert edited.settled([given]).clock == pytest.approx(now, abs=1e-3 * used * after.interval + 1e-3)
    assert edited.at_pace(before.interval, now).clock == pytest.approx(clock.clock, abs=1e-3)
