"""From a decision to rows: leases for what starts, set-based, in the transaction that decided.

A few statements whatever the number of starts. A lease for a slot that just came free is born
started; any other waits for the worker its message reaches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from queuemgr import snapshot, sql, states
from queuemgr.admission import Decision, WaitingRoute, admit, count_starts
from queuemgr.capacity import Group
from queuemgr.flow import queue_name
from queuemgr.knobs import queue_knobs
from queuemgr.models import State


@dataclass(frozen=True, slots=True)
class Grant:
    """A lease given out, with all a worker needs to run it."""

    lease_id: UUID
    execution_id: int
    flow: str
    key: str
    phase: str
    step: str
    priority: int
    limit_key: str
    payload: dict[str, Any]
    context: dict[str, Any]

    @property
    def queue(self) -> str:
        return queue_name(self.phase, self.priority)


@dataclass(frozen=True, slots=True)
class Hands:
    """Slots of one worker that just came free and want work: its row, its queues, how many."""

    worker_id: int
    queues: Group
    free: int


@dataclass(frozen=True, slots=True)
class Granted:
    """Leases given to the free hands, and leases to be sent as messages."""

    handed: list[Grant]
    to_send: list[Grant]


NOTHING = Granted([], [])


def start_what_may(now: datetime, hands: Hands | None = None) -> Granted:
    """Read, decide, write the leases; to be called holding the fleet's lock."""
    seen = snapshot.read(now)
    if not seen.routes:
        return NOTHING
    decision = admit(seen)
    if not decision.starts:
        return NOTHING
    routes = {route.id: route for route in seen.routes}
    queue_of = {pk: route.queue for pk, route in routes.items()}
    handed = _for_hands(decision, queue_of, hands) if hands else Counter()
    to_send = count_starts(decision) - handed
    if len(routes) > 1:
        _remember_turns(decision, now)
    return Granted(
        _lease_out(now, handed, routes, hands.worker_id) if hands and handed else [],
        _lease_out(now, to_send, routes, None) if to_send else [],
    )


def _remember_turns(decision: Decision, now: datetime) -> None:
    """Routes that were served go behind those that were not, next time; one alone need not."""
    served = set(decision.starts)
    sql.run(
        f"UPDATE queuemgr_route SET served_at = %s WHERE id IN ({sql.marks(len(served))})",
        [now, *served],
    )


def _for_hands(decision: Decision, queue_of: Mapping[int, str], hands: Hands) -> Counter[int]:
    """Which starts go to the free hands: first those matched with this worker, then any it can run."""
    free, handed = hands.free, Counter[int]()
    matched = {queue: decision.capacity.matched(hands.queues, queue) for queue in hands.queues}
    passed_over: list[int] = []
    for route in decision.starts:
        queue = queue_of[route]
        if free and matched.get(queue, 0):
            free, matched[queue] = free - 1, matched[queue] - 1
            handed[route] += 1
        else:
            passed_over.append(route)
    fitting = [route for route in passed_over if queue_of[route] in hands.queues]
    handed.update(fitting[:free])
    return handed


def _lease_out(
    now: datetime,
    counts: Counter[int],
    routes: Mapping[int, WaitingRoute],
    worker_id: int | None,
) -> list[Grant]:
    """Lease the heads of these routes; to a worker, already started, or to whom the message finds."""
    to = State.RUNNING if worker_id else State.LEASED
    granted = []
    for pk, route_id, *columns, payload, context in states.take_heads(counts, to, now):
        key = routes[route_id].limit_key
        known = [key, sql.as_json(payload), sql.as_json(context)]
        granted.append((Grant(*[uuid4(), pk, *columns, *known]), routes[route_id]))
    _insert(granted, now, worker_id)
    return [grant for grant, _ in granted]


COLUMNS, ROWS_PER_STATEMENT = 14, 1000
"""SQLite allows 32,766 parameters in a statement."""

_INSERT = """
    INSERT INTO queuemgr_lease (id, execution_id, phase, step, priority, limit_key, cost, weight,
                                worker_id, budget_day, leased_at, started_at, expires_at, cancel_by)
    VALUES {rows}
"""


def _insert(
    granted: list[tuple[Grant, WaitingRoute]], now: datetime, worker_id: int | None
) -> None:
    born_started = worker_id is not None
    shared = [
        worker_id,
        now.astimezone(UTC).date(),
        now,
        now if born_started else None,
        expiry(now, started=born_started),
        "",
    ]
    parameters: list[Any] = []
    for g, route in granted:
        parameters += [g.lease_id, g.execution_id, g.phase, g.step, g.priority, g.limit_key]
        parameters += [route.cost, route.weight, *shared]
    for start in range(0, len(granted), ROWS_PER_STATEMENT):
        some = parameters[start * COLUMNS : (start + ROWS_PER_STATEMENT) * COLUMNS]
        rows = ", ".join([f"({sql.marks(COLUMNS)})"] * (len(some) // COLUMNS))
        sql.run(_INSERT.format(rows=rows), some)


_GRANTS = """
    SELECT l.id, e.id, e.flow, e.key, e.phase, e.step, e.priority, l.limit_key, e.payload, e.context
      FROM queuemgr_lease l JOIN queuemgr_execution e ON e.id = l.execution_id
     WHERE l.id IN ({ids})
"""


def of_leases(lease_ids: Sequence[UUID]) -> list[Grant]:
    """The grants of leases given out before."""
    found = sql.rows(_GRANTS.format(ids=sql.marks(len(lease_ids))), lease_ids)
    return [_grant(*row) for row in found]


def _grant(lease_id: Any, *row: Any) -> Grant:
    *columns, payload, context = row
    return Grant(*[sql.as_uuid(lease_id), *columns, sql.as_json(payload), sql.as_json(context)])


def expiry(now: datetime, *, started: bool) -> datetime:
    """When a lease given or renewed now runs out; one nobody began is given out again sooner."""
    knobs = queue_knobs()
    return now + timedelta(seconds=knobs.lease_seconds if started else knobs.start_seconds)
