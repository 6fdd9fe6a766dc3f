"""Inserts executions of which there may be one at a time: the database's unique index decides races.

What was not inserted is then looked up: whoever holds the unique key is what the call gets, changed first
where its rule says so. If the holder went meanwhile, inserting is tried again.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from queuemgr.base import sql, transaction
from queuemgr.base.errors import UniqueKeyBusy
from queuemgr.base.queue_database import connection
from queuemgr.base.scheduler_lock import clock, database_now
from queuemgr.flows.unique import SKIP
from queuemgr.lifecycle import states
from queuemgr.lifecycle.inserted_rows import BY_ITS_CLOCK
from queuemgr.lifecycle.states import Due, Replacement
from queuemgr.models import Execution, State
from queuemgr.models.enums import WITHOUT_KEY

TRIES = 20
"""Each further one means that somebody else's execution began or ended between two statements of ours."""


@dataclass
class Stored:
    """Keys of the rows that were inserted; of others, by key, that of the execution there was instead; and
    routes on which something waits now that did not before."""

    new: list[str] = field(default_factory=list)
    instead: dict[str, str] = field(default_factory=dict)
    routes: set[int] = field(default_factory=set)


class Holder(NamedTuple):
    """An execution with a unique key: columns of its row."""

    id: int
    key: str
    unique_key: str
    route_id: int | None
    run_after: datetime | None
    created_at: datetime
    state: str


def _holders(flow: str, unique_keys: Collection[str]) -> list[Holder]:
    """Those because of which others with these unique keys are not enqueued."""
    now = clock.ahead if connection.vendor == "postgresql" else database_now()
    statement = _HOLDERS.format(
        columns=", ".join(Holder._fields),
        keys=sql.marks(len(unique_keys)),
        now=BY_ITS_CLOCK[connection.vendor],
    )
    return sql.rows(Holder, statement, [flow, *unique_keys, now])


_COUNTS = " AND ".join(
    f"NOT (unique_states = {states} AND state IN ({', '.join(map(repr, map(str, ends)))}))"
    for states, ends in WITHOUT_KEY.items()
)
_HOLDERS = f"""
    SELECT {{columns}} FROM queuemgr_execution
     WHERE flow = %s AND unique_key IN ({{keys}}) AND (unique_until IS NULL OR unique_until > {{now}})
       AND {_COUNTS}
"""
"""As `Execution.objects.holding`."""


class Merged(NamedTuple):
    """Rows of which no two have the same unique key; and of those left out, by key, the key of what is there
    instead."""

    rows: list[Execution]
    into: dict[str, str]


def merge(rows: Sequence[Execution]) -> Merged:
    """Make of rows with the same unique key what would become of them, were they inserted one by one."""
    if not any(row.unique for row in rows):
        return Merged(list(rows), {})
    first: dict[str | int, Execution] = {}
    into: dict[str, str] = {}
    for number, row in enumerate(rows):
        kept = first.setdefault(row.unique_key or number, row)
        if kept is not row:
            into[row.key] = kept.key
            first[row.unique_key or number] = _changed(kept, row)
    return Merged(list(first.values()), into)


def held(rows: Sequence[Execution]) -> dict[str, str]:
    """By key of these rows, the key of the execution that has its unique key now; nothing is changed."""
    by_key = {_unique_key(row): row for row in rows if row.unique}
    found = _holders(rows[0].flow, [*by_key]) if by_key else []
    return {by_key[holder.unique_key].key: holder.key for holder in found}


def insert(rows: Sequence[Execution]) -> Stored:
    """Insert those of these rows that may be, in the caller's transaction. Their unique keys differ."""
    plain = [row for row in rows if not row.unique]
    unique = sorted((row for row in rows if row.unique), key=_unique_key)
    if len(unique) > 1:
        with suppress(_Contended), transaction.atomic():
            return _insert_at_once([*plain, *unique])
    stored = Stored()
    if plain:
        _insert_new(plain, stored)
    for row in unique:
        _insert_one(row, stored)
    return stored


class _Contended(Exception):
    """Somebody else takes or releases one of these unique keys just now."""


def _insert_at_once(rows: Sequence[Execution]) -> Stored:
    """Insert many, in the order of their unique keys, and wait for nobody after that: who waits while it
    holds what others want may wait in a circle. Raises `_Contended` where it would have to."""
    stored = Stored()
    if _settle(_insert_new(rows, stored), stored, wait=False):
        raise _Contended
    return stored


def _insert_one(row: Execution, stored: Stored) -> None:
    """Insert one, or find who has its unique key. Those before it in the order of keys are done with."""
    for _ in range(TRIES):
        left = _insert_new([row], stored)
        if not left or _is_replaced(row, stored) or not _settle(left, stored, wait=True):
            return
        states.release_passed(row.flow, [_unique_key(row)])
    raise UniqueKeyBusy(f"who holds the unique key {row.unique_key} has changed {TRIES} times: try again")


def _is_replaced(row: Execution, stored: Stored) -> bool:
    """Give the one that has its unique key the work of this one, if that takes no more than one statement: as
    many as a call without a unique key, which inserts a wake-up."""
    if row.unique is None or (rule := row.unique.rule).on_conflict == SKIP:
        return False
    stays = rule.pause is None and not _has_its_own_time(row)
    key = states.replace_in_place(row, Due(stays, rule.pause and rule.pause.altogether))
    if key is not None:
        stored.instead[row.key] = key
    return key is not None


def _insert_new(rows: Sequence[Execution], stored: Stored) -> list[Execution]:
    """Insert those whose keys are new; returns those with a unique key that were not inserted."""
    new = states.insert_new(rows)
    made = set(new)
    stored.new += new
    stored.routes |= {row.route_id for row in rows if row.key in made and row.route_id}
    return [row for row in rows if row.unique and row.key not in made]


def _settle(rows: Sequence[Execution], stored: Stored, *, wait: bool) -> list[Execution]:
    """Find, and change, what there is instead of these rows, into `stored`; returns those of which there is
    nothing (any more), so that they may be inserted."""
    if not rows:
        return []
    by_key = {_unique_key(row): row for row in rows}
    conflicts = [(by_key.pop(each.unique_key), each) for each in _holders(rows[0].flow, [*by_key])]
    locked = _change([conflict for conflict in conflicts if _is_to_change(*conflict)], stored, wait=wait)
    went = [row for row, holder in conflicts if _is_to_change(row, holder) and holder.id not in locked]
    stored.instead.update({row.key: holder.key for row, holder in conflicts if row not in went})
    return [*_without_known(list(by_key.values())), *went]


def _is_to_change(row: Execution, holder: Holder) -> bool:
    return row.unique is not None and row.unique.rule.on_conflict != SKIP and holder.state == State.WAITING


def _change(conflicts: Sequence[tuple[Execution, Holder]], stored: Stored, *, wait: bool) -> set[int]:
    """Give holders that have not begun what these rows have; returns those that still waited. Only what waits
    is locked, so that no end of a step is held up."""
    locked = states.lock_waiting_holders([holder.id for _, holder in conflicts], wait=wait)
    changing = {holder.id: (row, holder) for row, holder in conflicts if holder.id in locked}
    replacements = [_replacement(holder, row) for row, holder in changing.values()]
    for changed in states.replace_unbegun(replacements):
        row, holder = changing[changed]
        stored.routes |= {route for route in (holder.route_id, row.route_id) if route}
    return locked


def _without_known(rows: Sequence[Execution]) -> list[Execution]:
    """Those of these whose own key is new."""
    if not rows:
        return []
    known = Execution.objects.filter(flow=rows[0].flow, key__in=[row.key for row in rows])
    taken = set(known.values_list("key", flat=True))
    return [row for row in rows if row.key not in taken]


def _replacement(holder: Holder, row: Execution) -> Replacement:
    due = _due(holder, row)
    return Replacement(holder.id, row.phase, row.step, row.priority, row.payload, due, row.route_id)


def _changed(kept: Execution, row: Execution) -> Execution:
    """The first of two rows with the same unique key, as the second leaves it."""
    if row.unique is None or row.unique.rule.on_conflict == SKIP:
        return kept
    changed = copy.copy(kept)
    changed.unique, changed.run_after = row.unique, _due(kept, row)
    for name in ("phase", "step", "priority", "payload", "route_id"):
        setattr(changed, name, getattr(row, name))
    return changed


def _due(holder: Holder | Execution, row: Execution) -> datetime | None:
    """When a holder falls due that gets the work of this row. Without a time of its own that is no later than
    it was: whoever replaces its payload again and again would put it at the end of its queue each time."""
    if holder.run_after is None or row.run_after is None or row.unique is None:
        return holder.run_after  # beyond the window of its batch
    if pause := row.unique.rule.pause:
        return min(row.run_after, holder.created_at + pause.altogether)
    return row.run_after if _has_its_own_time(row) else min(holder.run_after, row.run_after)


def _has_its_own_time(row: Execution) -> bool:
    return row.run_after is not None and row.run_after > row.created_at


def _unique_key(row: Execution) -> str:
    return row.unique_key or ""
