"""Clocks of rates and of rolling allowances: shared by the fleet, they advance as leases start.

A start is booked at the moment it conforms to all of them. What a step used in the end differs from what was
booked: the difference is inserted beside the clock when its lease ends, which waits for nobody, and added by
the next booking.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from queuemgr.base import sql, transaction
from queuemgr.base.allowance import Allowance
from queuemgr.base.bucket_clock import Booked, BucketClock, Dip, Settlement
from queuemgr.base.rate import MAX_HOLD, Debit, book
from queuemgr.base.scheduler_lock import SchedulerLock, database_now
from queuemgr.scheduling.breakers import RATE_CLOCKS
from queuemgr.scheduling.clock_rows import Clocks
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
    rates = [name for name in names if not is_of_allowance(name)]
    allowances = _lock_allowances([name for name in names if is_of_allowance(name)])
    clocks = {name: row.clock for name, row in allowances.items()} | RATE_CLOCKS.lock(rates)
    now, local = database_now(), time.monotonic()
    bookings = [_book(clocks, allowances, each, now, local) if each else NO_BOOKING for each in starts]
    _write_allowances(allowances)
    RATE_CLOCKS.write(clocks, rates)
    return bookings


def _book(
    clocks: dict[str, float],
    allowances: dict[str, BucketClock],
    debits: Mapping[str, Debit],
    now: datetime,
    local: float,
) -> Booking:
    earliest = now.timestamp() + max(debit.commit_time for debit in debits.values())
    wait = book(clocks, debits, earliest) - now.timestamp()
    start = now.timestamp() + wait
    booked: dict[str, Booked] = {}
    for name in debits.keys() & allowances.keys():
        allowances[name] = allowances[name].booked(start, clocks[name])
        booked[name] = Booked(debits[name].interval, allowances[name].bookings)
    return Booking(now + timedelta(seconds=wait), local + wait, booked)


_ALLOWANCES = Clocks(
    "SELECT name, clock FROM queuemgr_allowanceclock WHERE name IN ({names}) ORDER BY name",
    "INSERT INTO queuemgr_allowanceclock (name, clock) VALUES (%s, 0) ON CONFLICT (name) DO NOTHING",
    "UPDATE queuemgr_allowanceclock SET clock = %s WHERE name = %s",
)


def is_of_allowance(clock: str) -> bool:
    """Whether a clock of this name is that of an allowance: names of limits have no blanks."""
    return " " in clock


def _lock_allowances(names: Sequence[str]) -> dict[str, BucketClock]:
    """The clocks of these allowances, locked, with what ends of leases settled, which is taken."""
    if not names:
        return {}
    _ALLOWANCES.lock(names)
    marks = sql.marks(len(names))
    clocks = sql.rows(_Row, f"{_CLOCKS} WHERE name IN ({marks})", names)
    statement = f"DELETE FROM queuemgr_allowancesettlement WHERE name IN ({marks})"
    settled = sql.rows(_Row, f"{statement} RETURNING {_SETTLEMENT}", names)
    return _settled([*clocks, *settled])


def _write_allowances(clocks: Mapping[str, BucketClock]) -> None:
    if clocks:
        sql.run_each(
            "UPDATE queuemgr_allowanceclock SET clock = %s, bookings = %s, dips = %s WHERE name = %s",
            [(row.clock, row.bookings, json.dumps(row.dips), name) for name, row in sorted(clocks.items())],
        )


IDLE = 86_400.0
"""Seconds after which a clock that has refilled is deleted, and what ended is settled."""


@transaction.atomic
def prune(now: datetime, most: int) -> int:
    """Settle what nothing has begun to settle since, and delete clocks that have long been refilled, which an
    absent one is, too; returns how many."""
    old = now.timestamp() - IDLE
    statement = "SELECT DISTINCT name FROM queuemgr_allowancesettlement WHERE at < %s ORDER BY name LIMIT %s"
    _write_allowances(_lock_allowances(sql.column(statement, [old, most])))
    idle = "clock < %s AND NOT EXISTS (SELECT 1 FROM queuemgr_allowancesettlement s "
    idle += "WHERE s.name = queuemgr_allowanceclock.name)"
    found = f"SELECT name FROM queuemgr_allowanceclock WHERE {idle} ORDER BY name LIMIT %s"
    names = list(_ALLOWANCES.lock(sql.column(found, [old, most])))
    if not names:
        return 0
    deleted = f"DELETE FROM queuemgr_allowanceclock WHERE name IN ({sql.marks(len(names))}) AND {idle}"
    return sql.run(deleted, [*names, old])


def settle(settlements: Collection[tuple[str, Settlement]]) -> None:
    """Settle these clocks with the next booking; decisions until then see it, too."""
    if settlements:
        sql.run_each(
            "INSERT INTO queuemgr_allowancesettlement (name, seconds, at, number) VALUES (%s, %s, %s, %s)",
            [(name, *settlement) for name, settlement in settlements],
        )


class _Row(NamedTuple):
    """A clock (without an `id`), or a settlement of one."""

    id: int | None
    name: str
    clock: float
    at: float
    number: int
    dips: str


_CLOCKS = """
    SELECT CAST(NULL AS bigint), name, clock, 0.0 AS at, bookings, dips FROM queuemgr_allowanceclock
"""
_SETTLEMENT = "id, name, seconds, at, number, ''"
_READ = f"""
    {_CLOCKS} WHERE name IN ({{names}})
    UNION ALL SELECT {_SETTLEMENT} FROM queuemgr_allowancesettlement WHERE name IN ({{names}})
"""


def read(names: Sequence[str]) -> dict[str, float]:
    """The clocks of these allowances, with what was settled."""
    if not names:
        return {}
    statement = _READ.format(names=sql.marks(len(names)))
    return {name: row.clock for name, row in _settled(sql.rows(_Row, statement, [*names, *names])).items()}


def _settled(rows: Iterable[_Row]) -> dict[str, BucketClock]:
    """The clocks among these rows, and those that have settlements alone, settled in their order."""
    clocks: dict[str, BucketClock] = {}
    settlements: defaultdict[str, list[Settlement]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.id or 0):
        if row.id is None:
            dips = tuple(Dip(*each) for each in json.loads(row.dips))
            clocks[row.name] = BucketClock(row.clock, row.number, dips)
        else:
            settlements[row.name].append(Settlement(row.clock, row.at, row.number))
    some = {name: clocks.get(name, BucketClock()) for name in {**clocks, **settlements}}
    return {name: clock.settled(settlements.get(name, ())) for name, clock in some.items()}


_SET_BACK = """
    UPDATE queuemgr_allowanceclock
       SET clock = %s, bookings = bookings + 1, dips = '[[' || CAST(bookings + 1 AS text) || ', 0.0]]'
     WHERE name = %s AND clock > %s
"""
"""As if it had been idle just now: what was booked before gives nothing back."""


def limit_clocks(lock: SchedulerLock, snapshot: Snapshot) -> None:
    """Set back clocks that are further ahead than their rate or their allowance could ever put them."""
    now = lock.now.timestamp()
    for name, allowance in sorted(_too_far(snapshot, now), key=lambda row: row[0]):
        farthest = now + allowance.farthest
        sql.run(_SET_BACK, [farthest, name, farthest])
    ahead = ((n, state.rate_clock - now) for n, state in snapshot.breaker_states.items())
    rates = [(name, by, rate) for name, by in ahead if by > MAX_HOLD and (rate := snapshot.rule(name).rate)]
    for name, by, rate in rates:
        if by > rate.farthest:
            farthest = now + rate.farthest
            sql.run(f"{RATE_CLOCKS.set} AND rate_clock > %s", [farthest, name, farthest])


def _too_far(snapshot: Snapshot, now: float) -> Iterator[tuple[str, Allowance]]:
    for limit, use in snapshot.use.items():
        for allowance in snapshot.rule(limit).allowances if use.meters else ():
            used = use.meters.get(allowance.name)
            if allowance.rolling and used and used.clock - now > allowance.farthest:
                yield clock_name(limit, allowance), allowance
