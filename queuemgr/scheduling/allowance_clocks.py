"""The clocks of rolling allowances.

They are locked and read in one statement, in the order of their names, and written in another: each start
under a limit pays for both. What the end of a lease settles is inserted beside the clock of an allowance,
which waits for nobody. Whoever locks the clock takes what has been settled by then.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from queuemgr.base import sql, transaction
from queuemgr.base.bucket_clock import BucketClock, Dip, Settlement
from queuemgr.base.scheduler_lock import has_sessions, locked_at


class LockedClocks(NamedTuple):
    """Clocks of allowances by name, locked, and the database's time when all of them were."""

    clocks: dict[str, BucketClock]
    now: datetime | None = None


class ClockRow(NamedTuple):
    """The clock of an allowance (without an `id`), with the time if it was locked; a settlement of one, as
    `clock` seconds; or what was `spent` in a period of a calendar one (see `limit_usage`)."""

    id: int | None
    name: str
    clock: float
    at: float
    number: int
    dips: str
    pace: float
    now: datetime | None = None
    spent: int | None = None


_CLOCK = "CAST(NULL AS bigint), name, clock, 0.0, bookings, dips, pace"
_SETTLEMENT = "id, name, seconds, at, number, '', pace"
_LOCKED = "clock_timestamp(), CAST(NULL AS bigint)"
_READ = "CAST(NULL AS timestamptz), CAST(NULL AS bigint)"

_LOCK = f"""
    WITH locked AS MATERIALIZED (
        SELECT name, clock, bookings, dips, pace FROM queuemgr_allowanceclock
         WHERE name IN ({{names}}) ORDER BY name FOR NO KEY UPDATE),
    taken AS (
        DELETE FROM queuemgr_allowancesettlement s USING locked WHERE s.name = locked.name
        RETURNING s.id, s.name, s.seconds, s.at, s.number, s.pace)
    SELECT {_CLOCK}, {_LOCKED} FROM locked
    UNION ALL SELECT {_SETTLEMENT}, {_LOCKED} FROM taken
"""
"""Only who has locked a clock deletes its settlements. One that is committed while the rows are waited for is
left to the next booking, as if its lease had ended after this one began."""

READ = f"""
    SELECT {_CLOCK}, {_READ} FROM queuemgr_allowanceclock WHERE name IN ({{names}})
    UNION ALL SELECT {_SETTLEMENT}, {_READ} FROM queuemgr_allowancesettlement WHERE name IN ({{names}})
"""
"""A `ClockRow` for each clock and settlement of these names, which are given twice."""

_NEW = "INSERT INTO queuemgr_allowanceclock (name, clock) VALUES (%s, 0) ON CONFLICT (name) DO NOTHING"


def lock(names: Sequence[str]) -> LockedClocks:
    """The clocks of these allowances, made where there are none, with what was settled, which is taken."""
    if not names:
        return LockedClocks({})
    taken = _take(names)
    rows = taken.rows
    while missing := sorted(set(names).difference(row.name for row in rows if row.id is None)):
        sql.run_each(_NEW, [(name,) for name in missing])
        taken = _take(names)
        rows = [*(row for row in rows if row.id is not None), *taken.rows]
    return LockedClocks(settled(rows), taken.now)


class _Taken(NamedTuple):
    rows: list[ClockRow]
    now: datetime


def _take(names: Sequence[str]) -> _Taken:
    """Lock these clocks, and delete what was settled of them."""
    marks = sql.marks(len(names))
    if has_sessions():
        locked = sql.rows(ClockRow, _LOCK.format(names=marks), names)
        return _Taken(locked, locked_at(row.now for row in locked))
    rows = sql.rows(ClockRow, READ.format(names=marks), [*names, *names])
    if ids := [row.id for row in rows if row.id is not None]:
        sql.run(f"DELETE FROM queuemgr_allowancesettlement WHERE id IN ({sql.marks(len(ids))})", ids)
    return _Taken(rows, locked_at(()))


def write(clocks: Mapping[str, BucketClock]) -> None:
    if clocks:
        sql.run_each(
            "UPDATE queuemgr_allowanceclock SET clock = %s, bookings = %s, dips = %s, pace = %s "
            "WHERE name = %s",
            [
                (row.clock, row.bookings, json.dumps(row.dips), row.pace, name)
                for name, row in sorted(clocks.items())
            ],
        )


_SET_BACK = """
    UPDATE queuemgr_allowanceclock
       SET clock = %s, pace = %s, bookings = bookings + 1,
           dips = '[[' || CAST(bookings + 1 AS text) || ', 0.0]]'
     WHERE name IN (SELECT name FROM queuemgr_allowanceclock
                     WHERE name = %s AND (clock > %s OR pace <> %s){pass_over})
"""


def set_back(name: str, farthest: float, pace: float) -> None:
    """Set the clock of an allowance back to this, in seconds of this pace, if it is further ahead and nobody
    holds it: as if it had been idle just now, so that what was booked before gives nothing back."""
    sql.run(sql.typed(_SET_BACK), [farthest, pace, name, farthest, pace])


def settle(settlements: Collection[tuple[str, Settlement]]) -> None:
    """Settle these clocks with the next booking; decisions until then see it, too."""
    if settlements:
        sql.run_each(
            "INSERT INTO queuemgr_allowancesettlement (name, seconds, at, number, pace) "
            "VALUES (%s, %s, %s, %s, %s)",
            [(name, *settlement) for name, settlement in settlements],
        )


def settled(rows: Iterable[ClockRow]) -> dict[str, BucketClock]:
    """The clocks among these rows, and those that have settlements alone, settled in their order."""
    clocks: dict[str, BucketClock] = {}
    settlements: defaultdict[str, list[Settlement]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.id or 0):
        if row.id is None:
            clocks[row.name] = BucketClock(
                row.clock, row.number, tuple(Dip(*each) for each in json.loads(row.dips)), row.pace
            )
        else:
            settlements[row.name].append(Settlement(row.clock, row.at, row.number, row.pace))
    for name, some in settlements.items():
        clocks[name] = clocks.get(name, BucketClock(pace=some[0].pace)).settled(some)
    return clocks


IDLE = 86_400.0
"""Seconds after which a clock that has refilled is deleted, and what ended is settled."""


@transaction.atomic
def prune(now: datetime, most: int) -> int:
    """Settle what nothing has begun to settle since, and delete clocks that have long been refilled, which an
    absent one is, too; returns how many."""
    old = now.timestamp() - IDLE
    statement = "SELECT DISTINCT name FROM queuemgr_allowancesettlement WHERE at < %s ORDER BY name LIMIT %s"
    write(lock(sql.column(statement, [old, most])).clocks)
    idle = "clock < %s AND NOT EXISTS (SELECT 1 FROM queuemgr_allowancesettlement s "
    idle += "WHERE s.name = queuemgr_allowanceclock.name)"
    found = f"SELECT name FROM queuemgr_allowanceclock WHERE {idle} ORDER BY name LIMIT %s"
    names = sql.column(found + sql.typed("{lock_rows}"), [old, most])
    if not names:
        return 0
    deleted = f"DELETE FROM queuemgr_allowanceclock WHERE name IN ({sql.marks(len(names))}) AND {idle}"
    return sql.run(deleted, [*names, old])
