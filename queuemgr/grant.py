"""From a decision to rows: leases for what starts, set-based, in the transaction that decided.

A few statements whatever the number of starts. A lease for a slot that just came free is born
started; any other waits for the worker its message reaches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from queuemgr import snapshot, sql, states
from queuemgr.admission import Decision, admit, count_starts
from queuemgr.capacity import Group
from queuemgr.flow import queue_name
from queuemgr.knobs import queue_knobs
from queuemgr.models import State

ROUTES_PER_STATEMENT = 200
"""SQLite allows 500 terms in a compound SELECT."""


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
    queue_of = {route.id: route.queue for route in seen.routes}
    handed = _for_hands(decision, queue_of, hands) if hands else Counter()
    to_send = count_starts(decision) - handed
    return Granted(
        _lease_out(now, handed, hands.worker_id) if hands and handed else [],
        _lease_out(now, to_send, None) if to_send else [],
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


def _lease_out(now: datetime, counts: Counter[int], worker_id: int | None) -> list[Grant]:
    leases: dict[int, UUID] = {}
    routes = list(counts.items())
    for start in range(0, len(routes), ROUTES_PER_STATEMENT):
        leases |= _insert(now, routes[start : start + ROUTES_PER_STATEMENT], worker_id)
    states.move(leases.keys(), State.RUNNING if worker_id else State.LEASED)
    sql.run(
        f"UPDATE queuemgr_route SET served_at = %s WHERE id IN ({sql.marks(len(counts))})",
        [now, *counts],
    )
    return grants(leases)


_GRANTS = """
    SELECT e.id, e.flow, e.key, e.phase, e.step, e.priority, r.limit_key, e.payload, e.context
      FROM queuemgr_execution e JOIN queuemgr_route r ON r.id = e.route_id
     WHERE e.id IN ({ids})
"""


def grants(leases: Mapping[int, UUID]) -> list[Grant]:
    """The grants of these leases, by execution id."""
    if not leases:
        return []
    found = sql.rows(_GRANTS.format(ids=sql.marks(len(leases))), list(leases))
    return [_grant(leases[row[0]], *row) for row in found]


def _grant(lease_id: UUID, *row: Any) -> Grant:
    *columns, payload, context = row
    return Grant(*[lease_id, *columns, sql.as_json(payload), sql.as_json(context)])


_HEADS = """SELECT id FROM (SELECT id FROM queuemgr_execution
     WHERE route_id = %s AND state = 'waiting' AND run_after <= %s
     ORDER BY run_after, id LIMIT %s) AS heads"""

_INSERT = """
    INSERT INTO queuemgr_lease (id, execution_id, phase, step, priority, limit_key, cost, weight,
                                worker_id, budget_day, leased_at, started_at, expires_at, cancel_by)
    SELECT {new_id}, e.id, e.phase, e.step, e.priority, r.limit_key, r.cost, r.weight,
           {bigint}, {date}, {time}, {time}, {time}, ''
      FROM queuemgr_execution e JOIN queuemgr_route r ON r.id = e.route_id
     WHERE e.id IN ({heads})
    RETURNING execution_id, id
"""


def _insert(now: datetime, routes: list[tuple[int, int]], worker_id: int | None) -> dict[int, UUID]:
    """Lease the heads of these routes; to a worker, already started, or to whom the message finds."""
    born_started = worker_id is not None
    parameters = [
        worker_id,
        now.astimezone(UTC).date(),
        now,
        now if born_started else None,
        expiry(now, started=born_started),
    ]
    for route, count in routes:
        parameters += [route, now, count]
    heads = " UNION ALL ".join([_HEADS] * len(routes))
    leased = sql.rows(sql.typed(_INSERT, heads=heads), parameters)
    return {execution: sql.as_uuid(lease) for execution, lease in leased}


def expiry(now: datetime, *, started: bool) -> datetime:
    """When a lease given or renewed now runs out; one nobody began is given out again sooner."""
    knobs = queue_knobs()
    return now + timedelta(seconds=knobs.lease_seconds if started else knobs.start_seconds)
