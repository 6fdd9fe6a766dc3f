"""The clock of a rolling allowance, and how it is settled: what a step used in the end differs from what was
booked when it began. Pure.

A clock is when all that was booked will have been refilled (GCRA). What a booking gives back is what a bucket
would have more of, had less been taken from it then: no more than was missing from it at any booking since,
for what was refilled to the brim meanwhile is there already. So the clock remembers how far ahead it was at
each later booking, as far as that can still be the least. What is used beyond a booking counts from when it
is known.

Seconds of a clock are those of its `pace`, which an edit of the allowance changes: what is used stays the
same amount then, so that a lower amount frees nothing of it, and a higher one makes no debt.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

MOST_DIPS = 40
"""Then the oldest are merged, and bookings between them give back less than they might."""


class Booked(NamedTuple):
    """What a start took of a clock: so many seconds, by the booking of this number."""

    seconds: float
    number: int = 0


class Settlement(NamedTuple):
    """By how many seconds the end of a lease sets a clock forward, or back, where less was used than its
    booking took; `at` is when it ended, `pace` what its seconds are of (see `BucketClock`)."""

    seconds: float
    at: float
    number: int = 0
    pace: float = 0.0


class Dip(NamedTuple):
    """How many seconds a clock was ahead when a booking was made: of it and all later ones the least."""

    number: int
    ahead: float


@dataclass(frozen=True, slots=True)
class BucketClock:
    """In Unix seconds. `bookings`: the number of the latest; `dips`: the lowest since each, both rising.
    `pace`: the seconds in which the smallest part of the meter was refilled at its booking; 0: unknown."""

    clock: float = 0.0
    bookings: int = 0
    dips: tuple[Dip, ...] = ()
    pace: float = 0.0

    def at_pace(self, pace: float, now: float) -> BucketClock:
        """The same amounts, in seconds of this pace."""
        if self.pace == pace:
            return self
        if not self.pace:
            return replace(self, pace=pace)
        scale = pace / self.pace
        clock = now + max(0.0, self.clock - now) * scale
        return BucketClock(clock, self.bookings, tuple(Dip(n, ahead * scale) for n, ahead in self.dips), pace)

    def booked(self, start: float, clock: float) -> BucketClock:
        """After a booking for this start, which has set the clock. Numbers rise with time, also where the row
        of an idle clock was deleted and made again."""
        number = max(self.bookings + 1, int(start * 1000))
        dip = Dip(number, max(0.0, self.clock - start))
        return BucketClock(clock, number, _merged((*_lower_than(self.dips, dip), dip)), self.pace)

    def given_back(self, seconds: float, number: int) -> BucketClock:
        """After the booking of this number has given back so many seconds, or what is not yet refilled."""
        return self._given_back([(seconds, number)])

    def _given_back(self, refunds: Iterable[tuple[float, int]]) -> BucketClock:
        """After each of these in turn; in lists, because many steps end at once and each changes all later
        dips."""
        clock = self.clock
        numbers, ahead = [dip.number for dip in self.dips], [dip.ahead for dip in self.dips]
        for seconds, number in refunds:
            first = bisect_right(numbers, number)
            back = min(seconds, ahead[first]) if first < len(ahead) else seconds
            clock -= back
            ahead[first:] = [each - back for each in ahead[first:]]
            lower = first
            while first < len(ahead) and lower and ahead[lower - 1] >= ahead[first]:
                lower -= 1
            del numbers[lower:first], ahead[lower:first]
        return BucketClock(clock, self.bookings, tuple(map(Dip, numbers, ahead)), self.pace)

    def settled(self, settlements: Iterable[Settlement]) -> BucketClock:
        now = self
        for gives_back, some in groupby(settlements, lambda each: each.seconds <= 0):
            if gives_back:
                now = now._given_back((-now._seconds(each), each.number) for each in some)
            else:
                for each in some:
                    now = now.booked(each.at, max(now.clock, each.at) + now._seconds(each))
        return now

    def _seconds(self, settlement: Settlement) -> float:
        """At the pace of this clock."""
        known = self.pace and settlement.pace
        return settlement.seconds * (self.pace / settlement.pace if known else 1.0)


def _lower_than(dips: tuple[Dip, ...], dip: Dip) -> tuple[Dip, ...]:
    end = len(dips)
    while end and dips[end - 1].ahead >= dip.ahead:  # they rise
        end -= 1
    return dips[:end]


def _merged(dips: tuple[Dip, ...]) -> tuple[Dip, ...]:
    if len(dips) <= MOST_DIPS:
        return dips
    return (Dip(dips[1].number, dips[0].ahead), *dips[2:])
