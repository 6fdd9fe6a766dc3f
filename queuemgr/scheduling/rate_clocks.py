"""Clocks of rates and of rolling allowances: shared by the fleet, they advance as leases start.

A start is booked at the moment it conforms to all of them. What a step used in the end differs from what was
booked: the difference is inserted beside the clock when its lease ends, which waits for nobody, and added by
the next booking.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from queuemgr.base.allowance import Allowance
from queuemgr.base.bucket_clock import Booked, BucketClock
from queuemgr.base.rate import MAX_HOLD, Debit, book
from queuemgr.base.scheduler_lock import SchedulerLock, database_now
from queuemgr.scheduling import allowance_clocks, breakers
from queuemgr.scheduling.allowance_clocks import is_of_allowance
from queuemgr.scheduling.decision_input import Snapshot, clock_name


class Booking(NamedTuple):
    """From when a start conforms to its rates, by the database's clock and by `time.monotonic()` of this
    process; without rates it may begin at once. `booked`: what it took of the clocks of allowances."""

    at: datetime | None = None
    not_before: float = 0.0
    booked: Mapping[str, Booked] = {}


NO_BOOKING = Booking()


def book_starts(starts: Sequence[Mapping[str, Debit]]) -> list[Booking]:
    """Book these starts, in order, under the rates and rolling allowances of each: advances their clocks.

    The clocks are locked until the transaction ends, so that concurrent bookings follow one another.
    """
    names = sorted({name for each in starts for name in each})
    if not names:
        return [NO_BOOKING] * len(starts)
    clocks = _lock(names)
    local = time.monotonic()
    bookings = [clocks.book(each, local) if each else NO_BOOKING for each in starts]
    breakers.write_rate_clocks(clocks.rates)
    allowance_clocks.write(clocks.allowances)
    return bookings


def _lock(names: Sequence[str]) -> _Clocks:
    """Those of rates first, as a decision has locked the states of tenants: so no two wait for each other."""
    rates, at = breakers.lock_rate_clocks([name for name in names if not is_of_allowance(name)])
    allowances, later = allowance_clocks.lock([name for name in names if is_of_allowance(name)])
    return _Clocks(rates, allowances, later or at or database_now())


@dataclass(slots=True)
class _Clocks:
    """Clocks that are locked since `now`, and advance as starts are booked."""

    rates: dict[str, float]
    allowances: dict[str, BucketClock]
    now: datetime

    def book(self, debits: Mapping[str, Debit], local: float) -> Booking:
        """`local` is this process's monotonic time."""
        now = self.now.timestamp()
        for name in debits.keys() & self.allowances.keys():
            self.allowances[name] = self.allowances[name].at_pace(debits[name].pace, now)
        clocks = {
            name: self.rates[name] if name in self.rates else self.allowances[name].clock for name in debits
        }
        start = book(clocks, debits, now + max(debit.commit_time for debit in debits.values()))
        booked: dict[str, Booked] = {}
        for name, clock in clocks.items():
            if name in self.rates:
                self.rates[name] = clock
            else:
                row = self.allowances[name] = self.allowances[name].booked(start, clock)
                booked[name] = Booked(debits[name].interval, row.bookings)
        wait = start - now
        return Booking(self.now + timedelta(seconds=wait), local + wait, booked)


def limit_clocks(lock: SchedulerLock, snapshot: Snapshot) -> None:
    """Set back clocks that are further ahead than their allowance could ever put them.

    It waits for no lock, and comes after the bookings of a decision, which lock clocks in an order of their
    own: a clock that somebody holds is being booked, for which it counts as no further ahead than this.
    """
    now = lock.now.timestamp()
    for clock, allowance in _too_far(snapshot, now):
        if is_of_allowance(clock):
            allowance_clocks.set_back(clock, now + allowance.farthest, allowance.interval)
        else:
            breakers.set_back_rate_clock(clock, now + allowance.farthest)


def _too_far(snapshot: Snapshot, now: float) -> Iterator[tuple[str, Allowance]]:
    for limit, state in snapshot.breaker_states.items():
        ahead = state.rate_clock - now
        if ahead > MAX_HOLD and (rate := snapshot.rule(limit).rate) and ahead > rate.farthest:
            yield clock_name(limit, rate), rate
    for limit, use in snapshot.use.items():
        for allowance in snapshot.rule(limit).allowances if use.meters else ():
            used = use.meters.get(allowance.name)
            if allowance.rolling and used and used.clock - now > allowance.farthest:
                yield clock_name(limit, allowance), allowance
