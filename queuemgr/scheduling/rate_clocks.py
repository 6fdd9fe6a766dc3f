"""Clocks of rolling allowances, rates among them: shared by the fleet, they advance as leases start.

A start is booked at the moment it conforms to all of them. What a step used in the end differs from what was
booked: the difference is inserted beside the clock when its lease ends, which waits for nobody, and added by
the next booking.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from queuemgr.base.allowance import Allowance
from queuemgr.base.bucket_clock import Booked, BucketClock
from queuemgr.base.drawn import Drawn
from queuemgr.base.rate import book
from queuemgr.base.scheduler_lock import SchedulerLock, database_now
from queuemgr.scheduling import allowance_clocks
from queuemgr.scheduling.decision_input import Snapshot, clock_name


class Booking(NamedTuple):
    """From when a start conforms to its rates, by the database's clock and by `time.monotonic()` of this
    process; without rates it may begin at once. `booked`: what it took of clocks and may give back."""

    at: datetime | None = None
    not_before: float = 0.0
    booked: Mapping[str, Booked] = {}


NO_BOOKING = Booking()


def debits_text(debits: Mapping[str, Drawn]) -> str:
    """The seconds taken of clocks, by their names, as rows store them."""
    return json.dumps({clock: debit.interval for clock, debit in debits.items()}) if debits else ""


def booked_text(booked: Mapping[str, Booked]) -> str:
    """What a started lease took of the clocks of allowances, as rows store it."""
    return json.dumps(booked) if booked else ""


def book_starts(starts: Sequence[Mapping[str, Drawn]]) -> list[Booking]:
    """Book these starts, in order, under the rolling allowances of each: advances their clocks.

    The clocks are locked until the transaction ends, so that concurrent bookings follow one another.
    """
    names = sorted({name for each in starts for name in each})
    if not names:
        return [NO_BOOKING] * len(starts)
    locked = allowance_clocks.lock(names)
    clocks, local = _Clocks(locked.clocks, locked.now or database_now()), time.monotonic()
    bookings = [clocks.book(each, local) if each else NO_BOOKING for each in starts]
    allowance_clocks.write(clocks.rows)
    return bookings


@dataclass(slots=True)
class _Clocks:
    """Clocks that are locked since `now`, and advance as starts are booked."""

    rows: dict[str, BucketClock]
    now: datetime

    def book(self, debits: Mapping[str, Drawn], local: float) -> Booking:
        """`local` is this process's monotonic time."""
        now = self.now.timestamp()
        rows = {name: self.rows[name].at_pace(debit.pace, now) for name, debit in debits.items()}
        clocks = {name: row.clock for name, row in rows.items()}
        start = book(clocks, debits, now + max(debit.commit_time for debit in debits.values()))
        booked: dict[str, Booked] = {}
        for name, debit in debits.items():
            if debit.may_be_given_back:
                row = self.rows[name] = rows[name].booked(start, clocks[name])
                booked[name] = Booked(debit.interval, row.bookings)
            else:
                self.rows[name] = replace(rows[name], clock=clocks[name])
        wait = start - now
        return Booking(self.now + timedelta(seconds=wait), local + wait, booked)


def limit_clocks(lock: SchedulerLock, snapshot: Snapshot) -> None:
    """Set back clocks that are further ahead than their allowance could ever put them.

    It waits for no lock, and comes after the bookings of a decision, which lock clocks in an order of their
    own: a clock that somebody holds is being booked, for which it counts as no further ahead than this.
    """
    now = lock.now.timestamp()
    for clock, allowance in _too_far(snapshot, now):
        allowance_clocks.set_back(clock, now + allowance.farthest, allowance.interval)


def _too_far(snapshot: Snapshot, now: float) -> Iterator[tuple[str, Allowance]]:
    for limit, use in snapshot.use.items():
        for allowance in snapshot.rule(limit).allowances if use.meters else ():
            used = use.meters.get(allowance.name)
            if allowance.rolling and used and used.clock - now > allowance.farthest:
                yield clock_name(limit, allowance), allowance
