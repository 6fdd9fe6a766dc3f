"""Waking parked routes: what a change makes possible again, told to whoever decides next.

Holding the fleet's lock, a change unparks at once. Without it, it leaves a note in its own
transaction: the next decision reads the notes before it looks at routes, so none is lost whoever
commits first.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable

from queuemgr.base import sql
from queuemgr.base.scheduler_lock import SchedulerLock
from queuemgr.models import Wakeup
from queuemgr.scheduling.candidates import budget_of
from queuemgr.scheduling.claims import names_of, route_keys

EVERYTHING = "*"
"""The note that unparks all: a limit was edited, a pause ended."""


def freed_by(phase: str, limit_keys: str, tokens: str, *, refunded: bool) -> set[str]:
    """What the end of a lease frees: its own limits, and budgets it left something of."""
    freed = set(route_keys(limit_keys, tokens))
    return freed | (
        {budget_of(name) for name in names_of(phase, limit_keys)} if refunded else set()
    )


_BATCH, _SWEEP = "batch ", "sweep "
"""Begin the notes for a batch (a member ended; it was cancelled, and is to be swept up), and can begin
no limit's name: those have no blanks."""


def post(
    routes: Iterable[int] = (),
    limits: Iterable[str] = (),
    batches: Iterable[int] = (),
    unswept: Iterable[int] = (),
) -> None:
    """Leave notes, in the caller's transaction."""
    notes = [Wakeup(route_id=route) for route in routes]
    notes += [Wakeup(limit=name) for name in limits]
    notes += [Wakeup(limit=f"{_BATCH}{batch}") for batch in batches]
    notes += [Wakeup(limit=f"{_SWEEP}{batch}") for batch in unswept]
    if notes:
        Wakeup.objects.bulk_create(notes, batch_size=500)


def consume(lock: SchedulerLock) -> tuple[set[int], set[int]]:
    """Read the notes and unpark what they name.

    Returns the batches that are to go on since members of theirs have ended, and those to be swept up.
    """
    notes = sql.rows("DELETE FROM queuemgr_wakeup RETURNING route_id, limit_name")
    limits = {limit for _, limit in notes if limit}
    ended, unswept = (_batches(limits, word) for word in (_BATCH, _SWEEP))
    if notes:
        unpark(lock, {route for route, _ in notes if route}, limits - {*ended, *unswept})
    return set(ended.values()), set(unswept.values())


def _batches(notes: Collection[str], word: str) -> dict[str, int]:
    """The batches of the notes that begin with this word, by note."""
    return {note: int(note.removeprefix(word)) for note in notes if note.startswith(word)}


def unpark(lock: SchedulerLock, routes: Collection[int] = (), limits: Collection[str] = ()) -> None:
    """Let these routes, and those parked on these limits, be looked at."""
    if EVERYTHING in limits:
        sql.run(f"{_UNPARK} WHERE parked_on <> ''")
        return
    named, known = list(limits), list(routes)
    for start in range(0, max(len(named), len(known)), _AT_A_TIME):
        some, few = named[start : start + _AT_A_TIME], known[start : start + _AT_A_TIME]
        tests = [f"parked_on IN ({sql.marks(len(some))})"] if some else []
        tests += [f"id IN ({sql.marks(len(few))})"] if few else []
        sql.run(f"{_UNPARK} WHERE parked_on <> '' AND ({' OR '.join(tests)})", [*some, *few])


def unpark_sample(lock: SchedulerLock) -> None:
    """Unpark some routes for no reason, every tick: rows changed behind our back (by hand, by a
    restored backup) are so met in the end. With few parked routes it is all of them, every time."""
    first = random.SystemRandom().randrange(_highest() + 1) if _many() else 0
    chosen = "SELECT id FROM queuemgr_route WHERE parked_on <> '' AND id >= %s ORDER BY id LIMIT %s"
    sql.run(f"{_UNPARK} WHERE id IN (SELECT id FROM ({chosen}) AS chosen)", [first, _AT_A_TIME])


def _many() -> bool:
    parked = "SELECT 1 FROM queuemgr_route WHERE parked_on <> '' LIMIT %s"
    return len(sql.rows(parked, [_AT_A_TIME + 1])) > _AT_A_TIME


def _highest() -> int:
    return int(sql.rows("SELECT COALESCE(MAX(id), 0) FROM queuemgr_route")[0][0])


_AT_A_TIME = 500
_UNPARK = "UPDATE queuemgr_route SET parked_on = '', parked_until = NULL"
