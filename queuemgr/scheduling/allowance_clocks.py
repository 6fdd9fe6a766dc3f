"""The clocks of rolling allowances.

They are locked and read in one statement, in the order of their names, and written in another, however many
they are: each start under a limit pays for both. What the end of a lease settles is inserted beside the clock
of an allowance, which waits for nobody. Whoever locks the clock takes what has been settled by then.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from queuemgr.base import sql, sql_lists, transaction
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
         WHERE name {{these}} ORDER BY name FOR NO KEY UPDATE),
    taken AS (
        DELETE FROM queuemgr_allowancesettlement s USING locked WHERE s.name = locked.name
        RETURNING s.id, s.name, s.seconds, s.at, s.number, s.pace)
    SELECT {_CLOCK}, {_LOCKED} FROM locked
    UNION ALL SELECT {_SETTLEMENT}, {_LOCKED} FROM taken
"""
"""Only who has locked a clock deletes its settlements. One that is committed while the rows are waited for is
left to the next booking, as if its lease had ended after this one began."""

_ALL_OF = f"""
    SELECT {_CLOCK}, {_READ} FROM queuemgr_allowanceclock WHERE name {{these}}
    UNION ALL SELECT {_SETTLEMENT}, {_READ} FROM queuemgr_allowancesettlement WHERE name {{these}}
"""


def all_of(names: Collection[str]) -> sql_lists.Listed:
    """A SELECT of a `ClockRow` for each clock and settlement of these names."""
    these = sql_lists.among("text", names)
    return sql_lists.Listed(_ALL_OF.format(these=these.text), [*these.values, *these.values])


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
    if has_sessions():
        these = sql_lists.among("text", names)
        locked = sql.rows(ClockRow, _LOCK.format(these=these.text), these.values)
        return _Taken(locked, locked_at(row.now for row in locked))
    rows = sql.rows(ClockRow, *all_of(names))
    if ids := [row.id for row in rows if row.id is not None]:
        sql.run(f"DELETE FROM queuemgr_allowancesettlement WHERE id IN ({sql.marks(len(ids))})", ids)
    return _Taken(rows, locked_at(()))


_WRITE = """
    UPDATE queuemgr_allowanceclock SET clock = written.column2, bookings = written.column3,
           dips = written.column4, pace = written.column5
      FROM ({clocks}) AS written WHERE queuemgr_allowanceclock.name = written.column1
"""
_CLOCK_KINDS = ("text", "double precision", "bigint", "text", "double precision")


def write(clocks: Mapping[str, BucketClock]) -> None:
    rows = [(name, row.clock, row.bookings, json.dumps(row.dips), row.pace) for name, row in clocks.items()]
    for written in sql_lists.tables(_CLOCK_KINDS, rows):
        sql.run(_WRITE.format(clocks=written.text), written.values)


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


_SETTLEMENT_KINDS = ("text", "double precision", "double precision", "bigint", "double precision")


def settle(settlements: Iterable[tuple[str, Settlement]]) -> None:
    """Settle these clocks with the next booking; decisions until then see it, too."""
    columns = "(name, seconds, at, number, pace)"
    for rows in sql_lists.tables(_SETTLEMENT_KINDS, [(name, *each) for name, each in settlements]):
        sql.run(f"INSERT INTO queuemgr_allowancesettlement {columns} {rows.text}", rows.values)


def settled(rows: Iterable[ClockRow]) -> dict[str, BucketClock]:
    """The clocks among these rows, and those that have settlements alone, settled in their order."""
    clocks: dict[str, BucketClock] = {}
    settlements: defaultdict[str, list[Settlement]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.id or 0):
        if row.id is None:
            clocks[row.name] = BucketClock(row.clock, row.number, _dips(row.dips), row.pace)
        else:
            settlements[row.name].append(Settlement(row.clock, row.at, row.number, row.pace))
    for name, some in settlements.items():
        clocks[name] = clocks.get(name, BucketClock(pace=some[0].pace)).settled(some)
    return clocks


@lru_cache(maxsize=1_000)
def _dips(text: str) -> tuple[Dip, ...]:
    """A decision reads a clock, and once more as it locks it."""
    return tuple(Dip(*each) for each in json.loads(text))


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
