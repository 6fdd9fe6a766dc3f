"""Clocks of rates and of rolling allowances: shared by the fleet, they advance as leases start.

A start is booked at the moment it conforms to all of them. What a step used in the end differs from what was
booked: the difference is inserted beside the clock when its lease ends, which waits for nobody, and added by
the next booking.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from queuemgr.base import sql
from queuemgr.base.rate import MAX_HOLD, Debit, book
from queuemgr.base.scheduler_lock import SchedulerLock, database_now
from queuemgr.scheduling.breakers import RATE_CLOCKS
from queuemgr.scheduling.clock_rows import Clock, Clocks
from queuemgr.scheduling.decision_input import Snapshot


class Booking(NamedTuple):
    """From when a start conforms to its rates, by the database's clock and by `time.monotonic()` of this
    process; without rates it may begin at once."""

    at: datetime | None = None
    not_before: float = 0.0


NO_BOOKING = Booking()


def book_starts(starts: Sequence[Mapping[str, Debit]]) -> list[Booking]:
    """Book these starts, in order, under the rates and rolling allowances of each: advances their clocks.

    The clocks are locked until the transaction ends, so that concurrent bookings follow one another.
    """
    names = sorted({name for each in starts for name in each})
    if not names:
        return [NO_BOOKING] * len(starts)
    allowances = [name for name in names if is_of_allowance(name)]
    rates = [name for name in names if not is_of_allowance(name)]
    clocks = _ALLOWANCES.lock(allowances) | RATE_CLOCKS.lock(rates)
    for settled in _settlements(allowances):
        clocks[settled.name] += settled.clock
    now, local = database_now(), time.monotonic()
    bookings = [_book(clocks, each, now, local) if each else NO_BOOKING for each in starts]
    _ALLOWANCES.write(clocks, allowances)
    RATE_CLOCKS.write(clocks, rates)
    return bookings


def _book(clocks: dict[str, float], debits: Mapping[str, Debit], now: datetime, local: float) -> Booking:
    earliest = now.timestamp() + max(debit.commit_time for debit in debits.values())
    wait = book(clocks, debits, earliest) - now.timestamp()
    return Booking(now + timedelta(seconds=wait), local + wait)


_ALLOWANCES = Clocks(
    "SELECT name, clock FROM queuemgr_allowanceclock WHERE name IN ({names}) ORDER BY name",
    "INSERT INTO queuemgr_allowanceclock (name, clock) VALUES (%s, 0) ON CONFLICT (name) DO NOTHING",
    "UPDATE queuemgr_allowanceclock SET clock = %s WHERE name = %s",
)


def is_of_allowance(clock: str) -> bool:
    """Whether a clock of this name is that of an allowance: names of limits have no blanks."""
    return " " in clock


def _settlements(names: Sequence[str]) -> list[Clock]:
    """Take what ends of leases settled of these clocks, which are locked."""
    if not names:
        return []
    statement = f"DELETE FROM queuemgr_allowancesettlement WHERE name IN ({sql.marks(len(names))})"
    return sql.rows(Clock, f"{statement} RETURNING name, seconds", names)


def settle(seconds: Collection[tuple[str, float]]) -> None:
    """Set these clocks forward (or back, where less was used than was booked) by so many seconds."""
    if seconds:
        sql.run_each(
            "INSERT INTO queuemgr_allowancesettlement (name, seconds) VALUES (%s, %s)", list(seconds)
        )


_READ = """
    SELECT c.name, c.clock + COALESCE(
           (SELECT SUM(s.seconds) FROM queuemgr_allowancesettlement s WHERE s.name = c.name), 0)
      FROM queuemgr_allowanceclock c WHERE c.name IN ({names})
"""


def read(names: Sequence[str]) -> dict[str, float]:
    """The clocks of these allowances, with what was settled."""
    if not names:
        return {}
    return {row.name: row.clock for row in sql.rows(Clock, _READ.format(names=sql.marks(len(names))), names)}


def limit_clocks(lock: SchedulerLock, snapshot: Snapshot) -> None:
    """Set back rate clocks that are further ahead than their rate could ever put them."""
    now = lock.now.timestamp()
    ahead = ((n, state.rate_clock - now) for n, state in snapshot.breaker_states.items())
    rates = [(name, by, rate) for name, by in ahead if by > MAX_HOLD and (rate := snapshot.rule(name).rate)]
    for name, by, rate in rates:
        if by > rate.farthest:
            farthest = now + rate.farthest
            sql.run(f"{RATE_CLOCKS.set} AND rate_clock > %s", [farthest, name, farthest])
