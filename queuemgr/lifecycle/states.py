"""The life of an execution: one table of legal moves, and the one guarded way to make them.

```mermaid
stateDiagram-v2
    [*] --> waiting
    waiting --> leased: granted, message on its way
    waiting --> running: granted to a slot that just came free
    leased --> running: a worker began it
    leased --> waiting: nobody began it in time
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
from datetime import datetime
from typing import Any

from queuemgr.base import sql
from queuemgr.base.errors import IllegalMove
from queuemgr.models import FINAL, Execution, State
from queuemgr.scheduling import wakeups

MOVES: Mapping[str, frozenset[str]] = {
    State.WAITING: frozenset(
        {State.LEASED, State.RUNNING, State.CANCELLED, State.SKIPPED, State.FAILED}
    ),
    State.LEASED: frozenset({State.RUNNING, State.WAITING, State.CANCELLED}),
    State.RUNNING: frozenset(
        {State.WAITING, State.DONE, State.SKIPPED, State.FAILED, State.CANCELLED}
    ),
    State.DONE: frozenset(),
    State.FAILED: frozenset({State.WAITING, State.SKIPPED}),
    State.SKIPPED: frozenset({State.WAITING}),
    State.CANCELLED: frozenset({State.WAITING}),
}


def sources(to: str) -> list[str]:
    """The states an execution may come from to be in `to`."""
    return [str(state) for state, targets in MOVES.items() if to in targets]


def move(ids: Collection[int], to: State, **changes: Any) -> None:
    """Put these executions in state `to`, with further columns; all of them or none.

    An end leaves word for the batch it belongs to: the next decision lets the batch go on.
    Raises `IllegalMove`, which undoes the transaction, when one of them is not in a state it may
    come from.
    """
    if not ids:
        return
    legal = sources(to)
    columns = "".join(f", {column} = %s" for column in changes)
    statement = (
        f"UPDATE queuemgr_execution SET state = %s{columns} "
        f"WHERE id IN ({sql.marks(len(ids))}) AND state IN ({sql.marks(len(legal))})"
    )
    parameters = [to.value, *changes.values(), *ids, *legal]
    moved = _end(statement, parameters) if to in FINAL else sql.run(statement, parameters)
    if moved != len(ids):
        found = Execution.objects.filter(pk__in=ids).values_list("pk", "state")
        raise IllegalMove(f"to {to}: only {moved} of {len(ids)} may; found {dict(found)}")


def _end(statement: str, parameters: Sequence[Any]) -> int:
    ended = sql.rows(f"{statement} RETURNING batch_id", parameters)
    wakeups.post(batches={batch for (batch,) in ended if batch})
    return len(ended)


ROUTES_PER_STATEMENT = 200
"""SQLite allows 500 terms in a compound SELECT."""

_HEADS = """SELECT id FROM (SELECT id FROM queuemgr_execution
     WHERE route_id = %s AND state = 'waiting' AND run_after <= %s
     ORDER BY run_after, id LIMIT %s) AS heads"""


def take_heads(counts: Mapping[int, int], to: State, now: datetime) -> list[tuple[Any, ...]]:
    """Move so many executions from the head of each route, and only waiting ones, to state `to`.

    Returns (id, route_id, run_after, batch_id, flow, key, phase, step, priority, payload, context,
    traceparent) of each.
    """
    taken: list[tuple[Any, ...]] = []
    routes = list(counts.items())
    for start in range(0, len(routes), ROUTES_PER_STATEMENT):
        some = routes[start : start + ROUTES_PER_STATEMENT]
        heads = " UNION ALL ".join([_HEADS] * len(some))
        places = [value for route, count in some for value in (route, now, count)]
        taken += sql.rows(
            f"UPDATE queuemgr_execution SET state = %s WHERE id IN ({heads}) "
            "RETURNING id, route_id, run_after, batch_id, flow, key, phase, step, priority, "
            "payload, context, traceparent",
            [to.value, *places],
        )
    return taken
