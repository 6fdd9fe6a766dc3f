"""The states of an execution: the table of legal moves, and the one guarded way to make them.

```mermaid
stateDiagram-v2
    [*] --> waiting
    waiting --> leased: granted, message sent
    waiting --> running: granted to a slot that just came free
    leased --> running: a worker started it
    leased --> waiting: no worker started it in time
    running --> waiting: next step, retry, snooze, shutdown, worker lost
    running --> done
    running --> skipped
    running --> failed
    waiting --> failed: its flow or step is gone
    waiting --> cancelled
    leased --> cancelled
    running --> cancelled
    waiting --> skipped
    failed --> waiting: a person retries it
    failed --> skipped: a person decides it is not wanted
    cancelled --> waiting: a person retries it
    skipped --> waiting: a person retries it
```
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from django.db.models import DurationField

from queuemgr.base import sql, sql_lists
from queuemgr.base.errors import IllegalMove
from queuemgr.base.queue_database import connection
from queuemgr.base.scheduler_lock import clock, database_now
from queuemgr.base.sql_lists import NOTHING, Listed
from queuemgr.lifecycle.inserted_rows import BY_ITS_CLOCK, columns, values_of
from queuemgr.models import FINAL, Execution, State
from queuemgr.models.enums import WITHOUT_KEY
from queuemgr.scheduling import wakeups

MOVES: Mapping[str, frozenset[str]] = {
    State.WAITING: frozenset({State.LEASED, State.RUNNING, State.CANCELLED, State.SKIPPED, State.FAILED}),
    State.LEASED: frozenset({State.RUNNING, State.WAITING, State.CANCELLED}),
    State.RUNNING: frozenset({State.WAITING, State.DONE, State.SKIPPED, State.FAILED, State.CANCELLED}),
    State.DONE: frozenset(),
    State.FAILED: frozenset({State.WAITING, State.SKIPPED}),
    State.SKIPPED: frozenset({State.WAITING}),
    State.CANCELLED: frozenset({State.WAITING}),
}


def insert_new(rows: Sequence[Execution]) -> list[str]:
    """Insert those of these rows whose key is new, and whose unique key no other holds; returns their keys,
    and gives them their ids.

    One statement, so that the unique constraints decide races and the count is exact.
    """
    conflict = "" if any(row.unique for row in rows) else "(flow, key) "
    values, parameters = values_of(rows)
    new = sql.rows(
        _New,
        f"INSERT INTO queuemgr_execution ({columns(connection.vendor)}) {values} "
        f"ON CONFLICT {conflict}DO NOTHING RETURNING id, key",
        parameters,
    )
    ids = {row.key: row.id for row in new}
    for row in rows:
        row.pk = ids.get(row.key)
    return list(ids)


class _New(NamedTuple):
    id: int
    key: str


class Due(NamedTuple):
    """When an execution falls due that gets the work of another: as that one, but so long after it was
    enqueued `at_most`; or as it did, if it `stays`."""

    stays: bool = False
    at_most: timedelta | None = None


def replace_in_place(row: Execution, due: Due) -> str | None:
    """Give the work of this row to the one that holds its unique key; returns the key of that.

    Only to one that never began, waits on the same route, and falls due no earlier for it: then nothing can
    start that could not before, and no decision has to follow. None: there is none of that kind.
    """
    vendor, until = connection.vendor, [row.run_after]
    if due.at_most is not None:
        until.append(_AT_MOST.get_db_prep_value(due.at_most, connection))
    now = clock.ahead if vendor == "postgresql" else database_now()
    values = [
        *(getattr(row, column) for column in _WORK), *([] if due.stays else until),
        row.flow, row.unique_key, row.route_id, now, *until,
    ]  # fmt: skip
    statement = _replacing(vendor, stays=due.stays, is_bounded=due.at_most is not None)
    return next(iter(sql.column(statement, values)), None)


_WORK = ("phase", "step", "priority", "payload")
_AT_MOST = DurationField()


@cache
def _replacing(vendor: str, *, stays: bool, is_bounded: bool) -> str:
    bound = sql.TYPES[vendor]["time"]
    if is_bounded:
        latest = connection.ops.combine_duration_expression("+", ["created_at", "%s"])
        bound = f"{'LEAST' if vendor == 'postgresql' else 'MIN'}({bound}, {latest})"
    moved = "" if stays else f", run_after = {bound}"
    return (
        f"UPDATE queuemgr_execution SET {', '.join(f'{column} = %s' for column in _WORK)}{moved} "
        "WHERE flow = %s AND unique_key = %s AND state = 'waiting' AND route_id = %s "
        f"AND (unique_until IS NULL OR unique_until > {BY_ITS_CLOCK[vendor]}) AND run_after <= {bound} "
        f"AND {_NEVER_BEGAN} RETURNING key"
    )


_NEVER_BEGAN = "NOT EXISTS (SELECT 1 FROM queuemgr_attempt a WHERE a.execution_id = queuemgr_execution.id)"


def lock_waiting_holders(ids: Collection[int], *, wait: bool) -> set[int]:
    """Lock those of these that wait and hold their unique keys; returns which. Without `wait`, those that
    somebody else has locked are not among them."""
    if not ids:
        return set()
    statement = (
        f"SELECT id FROM queuemgr_execution WHERE id IN ({sql.marks(len(ids))}) "
        "AND state = 'waiting' AND unique_key IS NOT NULL"
    )
    return set(sql.column(statement + sql.typed("{lock_rows}" if wait else "{pass_over}"), list(ids)))


def release_passed(flow: str, unique_keys: Collection[str]) -> None:
    """Have those give up these unique keys which no longer hold them."""
    Execution.objects.passed(flow, unique_keys, database_now()).update(unique_key=None)


class Replacement(NamedTuple):
    """What becomes of an execution that has not begun: values of its columns, the id first."""

    id: int
    phase: str
    step: str
    priority: int
    payload: dict[str, Any]
    run_after: datetime | None
    route_id: int | None


def replace_unbegun(replacements: Sequence[Replacement]) -> set[int]:
    """Give those of these executions that wait and never began other work to do; returns which."""
    if not replacements:
        return set()
    names = Replacement._fields
    new = _table(names, replacements)
    assigned = ", ".join(f"{name} = new.column{number}" for number, name in enumerate(names[1:], start=2))
    return set(
        sql.column(
            f"UPDATE queuemgr_execution SET {assigned} FROM ({new.text}) AS new "
            f"WHERE id = new.column1 AND state = 'waiting' AND {_NEVER_BEGAN} RETURNING id",
            new.values,
        )
    )


def move(ids: Collection[int], to: State, **changes: Any) -> None:
    """Put these executions in state `to`, and set further columns; all of them or none.

    A final state posts a wake-up for the batch of the execution. Raises `IllegalMove`, which rolls the
    transaction back, when one of them is in a state that has no such move.
    """
    if ids:
        make(Move(list(ids), to, moving(ids, to, **changes)))


class Move(NamedTuple):
    """Executions to be put in a state, and the statement that does."""

    ids: Sequence[int]
    to: State
    statement: Listed


def moving(ids: Collection[int], to: State, **changes: Any) -> Listed:
    """The statement of `move`, for who makes it part of one: `check_all_moved` is to follow, and no final
    state is moved to so."""
    legal, among = _from(to), sql_lists.among("bigint", ids)
    columns = "".join(f", {column} = %s" for column in changes)
    statement = (
        f"UPDATE queuemgr_execution SET state = %s{columns}{_releasing(to)} "
        f"WHERE id {among.text} AND state IN ({sql.marks(len(legal))})"
    )
    return Listed(statement, [to.value, *changes.values(), *among.values, *legal])


def each_move(changes: Mapping[int, Mapping[str, Any]], to: State) -> Move:
    """What moves these in one statement, each with values of its own for the same columns."""
    rows = list(changes.values())
    if all(row == rows[0] for row in rows):
        return Move(list(changes), to, moving(changes, to, **rows[0]))
    columns, legal = list(next(iter(changes.values()))), _from(to)
    moved = _table(["id", *columns], [(pk, *map(row.__getitem__, columns)) for pk, row in changes.items()])
    assigned = "".join(f", {name} = moved.column{number}" for number, name in enumerate(columns, start=2))
    statement = (
        f"UPDATE queuemgr_execution SET state = %s{assigned}{_releasing(to)} "
        f"FROM ({moved.text}) AS moved WHERE id = moved.column1 AND state IN ({sql.marks(len(legal))})"
    )
    return Move(list(changes), to, Listed(statement, [to.value, *moved.values, *legal]))


def _releasing(to: State) -> str:
    """In the statement that moves executions: those which no longer count in this state release their unique
    key. They do not take it back when they wait again: another may hold it by then."""
    released = [str(states) for states, ends in WITHOUT_KEY.items() if to in ends]
    if not released:
        return ""
    return f", unique_key = CASE WHEN unique_states IN ({', '.join(released)}) THEN NULL ELSE unique_key END"


_FIELDS = {field.column: field for field in Execution._meta.concrete_fields}


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> sql_lists.Listed:
    """Values of these columns of executions."""
    return sql_lists.table([sql_lists.kind_of(_FIELDS[column]) for column in columns], rows)


def _from(to: State) -> list[str]:
    """The states from which an execution may move there."""
    return [str(state) for state, targets in MOVES.items() if to in targets]


def make(move: Move, beside: Listed = NOTHING) -> None:
    """Move these executions, all or none, with what `beside` gives before their statement."""
    statement, parameters = f"{beside.text} {move.statement.text}", [*beside.values, *move.statement.values]
    moved = _finish(statement, parameters) if move.to in FINAL else sql.run(statement, parameters)
    check_all_moved(move.ids, move.to, moved)


def check_all_moved(ids: Sequence[int], to: State, moved: int) -> None:
    """Raises `IllegalMove` if not all of these were moved there."""
    if moved != len(ids):
        found = Execution.objects.filter(pk__in=ids).values_list("pk", "state")
        raise IllegalMove(f"to {to}: only {moved} of {len(ids)} may move; states: {dict(found)}")


def _finish(statement: str, parameters: Sequence[Any]) -> int:
    batches = sql.column(f"{statement} RETURNING batch_id", parameters)
    wakeups.post(batches=set(filter(None, batches)))
    return len(batches)


class Deleted(NamedTuple):
    """An execution that was deleted."""

    id: int
    key: str
    state: str


def delete_ended(ids: Collection[int], before: datetime) -> list[Deleted]:
    """Delete those of these that ended before a time and still have; a row somebody holds is left out.

    Their attempts must be deleted in the same transaction.
    """
    ended = Execution.objects.filter(pk__in=ids, finished_at__lt=before)
    skips = connection.features.has_select_for_update_skip_locked
    locked = list(ended.select_for_update(skip_locked=skips).values_list("pk", flat=True))
    if not locked:
        return []
    statement = (
        f"DELETE FROM queuemgr_execution WHERE id IN ({sql.marks(len(locked))}) RETURNING id, key, state"
    )
    return sql.rows(Deleted, statement, locked)


def save_context(execution_id: int, context: dict[str, Any]) -> None:
    sql.run("UPDATE queuemgr_execution SET context = %s WHERE id = %s", [context, execution_id])


def set_payload(execution_id: int, payload: dict[str, Any]) -> None:
    Execution.objects.filter(pk=execution_id).update(payload=payload)


def set_priority(ids: Collection[int], priority: int) -> None:
    Execution.objects.filter(pk__in=ids).update(priority=priority)


def set_route(ids: Collection[int], route_id: int) -> None:
    Execution.objects.filter(pk__in=ids).update(route_id=route_id)


def reschedule(ids: Collection[int], run_after: datetime, wait_reason: str) -> None:
    Execution.objects.filter(pk__in=ids).update(run_after=run_after, wait_reason=wait_reason)


def wait_for_step(pk: int, until: datetime, why: str, since: datetime, error_kind: str) -> None:
    """Have a waiting execution whose step the worker did not know wait until then."""
    Execution.objects.filter(pk=pk).update(
        run_after=until, wait_reason=why, unknown_since=since, error_kind=error_kind
    )


def offer_again(ids: Collection[int], now: datetime) -> None:
    """Have executions that waited for a worker that knows their step fall due."""
    Execution.objects.filter(pk__in=ids).update(
        run_after=now, wait_reason="", unknown_since=None, error_kind=""
    )


def defer_members(ids: Collection[int]) -> None:
    """Have these members of batches wait for the window of their batch."""
    Execution.objects.filter(pk__in=ids).update(run_after=None)


def start_members(batch_id: int, seqs: range, at: datetime) -> set[int]:
    """Have members of a batch wait no longer for its window; returns their routes."""
    return set(
        sql.column(
            "UPDATE queuemgr_execution SET run_after = %s WHERE batch_id = %s AND state = 'waiting' "
            "AND batch_seq >= %s AND batch_seq < %s AND run_after IS NULL RETURNING route_id",
            [at, batch_id, seqs.start, seqs.stop],
        )
    )


class Head(NamedTuple):
    """An execution taken from the head of a route: columns of its row."""

    id: int
    route_id: int
    run_after: datetime
    batch_id: int | None
    flow: str
    key: str
    phase: str
    step: str
    priority: int
    payload: dict[str, Any]
    context: dict[str, Any]
    traceparent: str


ROUTES_PER_STATEMENT = 200
"""SQLite allows 500 terms in a compound SELECT."""

_HEADS = """SELECT id FROM (SELECT id FROM queuemgr_execution
     WHERE route_id = %s AND state = 'waiting' AND run_after <= %s
     ORDER BY run_after, id LIMIT %s{lock}) AS heads"""


def take_heads(counts: Mapping[int, int], to: State, now: datetime, beside: Listed = NOTHING) -> list[Head]:
    """Move so many executions from the head of each route, and only waiting ones, to state `to`. One that
    somebody has locked is passed over: no decision waits for it. `beside`, on PostgreSQL, is a statement to
    run in the same round trip."""
    taken: list[Head] = []
    routes = list(counts.items())
    for start in range(0, len(routes), ROUTES_PER_STATEMENT):
        some = routes[start : start + ROUTES_PER_STATEMENT]
        heads = " UNION ALL ".join([_HEADS.format(lock=sql.typed("{pass_over}"))] * len(some))
        first = f"beside AS ({beside.text}), " if beside.text else ""
        taken += sql.rows(
            Head,
            f"WITH {first}heads AS MATERIALIZED ({heads}) UPDATE queuemgr_execution SET state = %s"
            f"{_releasing(to)} WHERE id IN (SELECT id FROM heads) RETURNING {', '.join(Head._fields)}",
            [*beside.values, *(value for route, count in some for value in (route, now, count)), to.value],
        )
        beside = NOTHING
    return taken
