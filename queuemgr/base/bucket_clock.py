"""The clock of a rolling allowance, and how it is settled: what a step used in the end differs from what was
booked when it began. Pure.

A clock is when all that was booked will have been refilled (GCRA), so each booking is a stretch of it. The
part of a stretch that was over when something was booked after it has been refilled by the time that passed:
to give it back would count that time twice. So of a booking no more is given back than lay ahead when the
latest booking was made. What is used beyond a booking counts from when it is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Booked(NamedTuple):
    """What a start took of a clock: so many seconds, up to where; and what had been given back until then."""

    seconds: float
    until: float = 0.0
    given_back: float = 0.0


class Settlement(NamedTuple):
    """By how many seconds the end of a lease sets a clock forward, or back, where less was used than was
    booked (as `Booked` says); `at` is when it ended."""

    seconds: float
    at: float
    until: float = 0.0
    given_back: float = 0.0


@dataclass(frozen=True, slots=True)
class BucketClock:
    """In Unix seconds. `booked_at`: the start booked last; `given_back`: seconds in all."""

    clock: float = 0.0
    booked_at: float = 0.0
    given_back: float = 0.0

    def settled(self, settlements: Iterable[Settlement]) -> BucketClock:
        clock, booked_at, given_back = self.clock, self.booked_at, self.given_back
        for each in settlements:
            if each.seconds > 0:
                clock = max(clock, each.at) + each.seconds
                booked_at = max(booked_at, each.at)
            else:
                since = max(0.0, given_back - each.given_back)  # less where its row was deleted as idle
                ahead = each.until - since - booked_at
                back = min(-each.seconds, max(0.0, ahead))
                clock, given_back = clock - back, given_back + back
        return BucketClock(clock, booked_at, given_back)
