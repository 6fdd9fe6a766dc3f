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

from collections.abc import Iterable
from dataclasses import dataclass, replace
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
        later = [dip for dip in self.dips if dip.number > number]
        back = min(seconds, later[0].ahead) if later else seconds
        lowered = [Dip(dip.number, dip.ahead - back) for dip in later]
        earlier = self.dips[: len(self.dips) - len(later)]
        kept = _lower_than(earlier, lowered[0]) if lowered else earlier
        return BucketClock(self.clock - back, self.bookings, (*kept, *lowered), self.pace)

    def settled(self, settlements: Iterable[Settlement]) -> BucketClock:
        now = self
        for each in settlements:
            seconds = each.seconds * (self.pace / each.pace if self.pace and each.pace else 1.0)
            if seconds > 0:
                now = now.booked(each.at, max(now.clock, each.at) + seconds)
            else:
                now = now.given_back(-seconds, each.number)
        return now


def _lower_than(dips: Iterable[Dip], dip: Dip) -> tuple[Dip, ...]:
    return tuple(each for each in dips if each.ahead < dip.ahead)


def _merged(dips: tuple[Dip, ...]) -> tuple[Dip, ...]:
    if len(dips) <= MOST_DIPS:
        return dips
    return (Dip(dips[1].number, dips[0].ahead), *dips[2:])
