"""From a decision to rows: leases for what starts, set-based, in the transaction that decided.

A few statements whatever the number of starts. A lease for a slot that just came free is born
started; any other waits for the worker its message reaches.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from queuemgr.base import sql
from queuemgr.base.config import queue_settings
from queuemgr.base.scheduler_lock import SchedulerLock
from queuemgr.flows.flow import queue_name
from queuemgr.lifecycle import batch_window, states
from queuemgr.models import State
from queuemgr.scheduling import breakers, parking, snapshot, wakeups
from queuemgr.scheduling.admission import Decision, Snapshot, WaitingRoute, admit, count_starts
from queuemgr.scheduling.capacity import Group


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
    limit_keys: str
    payload: dict[str, Any]
    context: dict[str, Any]
    traceparent: str = ""

    @property
    def queue(self) -> str:
        return queue_name(self.phase, self.priority)


@dataclass(frozen=True, slots=True)
class FreeSlots:
    """Slots of one worker that just came free and want work: its row, its queues, how many."""

    worker_id: int
    queues: Group
    free: int


@dataclass(frozen=True, slots=True)
class GrantResult:
    """Leases for the free hands, leases to be sent as messages, and in how many seconds another look
    is worth while though nothing else happens (None: then it is not)."""

    handed: list[Grant]
    to_send: list[Grant]
    next_wakeup: float | None = None


NO_GRANTS = GrantResult([], [])


def schedule(lock: SchedulerLock, free_slots: FreeSlots | None = None) -> GrantResult:
    """Read the state, decide what starts, and insert its leases."""
    goes_on = batch_window.advance_batches(lock, *wakeups.consume(lock))
    fleet = snapshot.read_fleet(lock.now)
    if not snapshot.free_slots(fleet):
        return GrantResult([], [], 0.0) if goes_on else NO_GRANTS
    seen, decision = _decide(fleet)
    routes = {route.id: route for route in seen.snapshot.routes}
    parking.save_parking(lock, seen, decision)
    breakers.save_virtual_times(lock, decision.virtual_times)
    again = 0.0 if goes_on else _next_wakeup(lock.now, seen, decision)
    if not decision.starts:
        return GrantResult([], [], again)
    queue_of = {pk: route.queue for pk, route in routes.items()}
    handed = _assign_to_free_slots(decision, queue_of, free_slots) if free_slots else Counter()
    to_send = count_starts(decision) - handed
    rated = {pk: breakers.rate_debits(seen.snapshot, routes[pk]) for pk in set(decision.starts)}
    return GrantResult(
        _grant_leases(lock, handed, routes, rated, free_slots.worker_id)
        if free_slots and handed
        else [],
        _grant_leases(lock, to_send, routes, rated, None) if to_send else [],
        again,
    )


LOOKAHEAD_FACTOR = 8
"""How many times as many routes are looked at when those before did not fill the room."""


def _decide(fleet: Snapshot) -> tuple[snapshot.RouteScan, Decision]:
    """Look at as many routes as there are idle slots; at more only while slots would stay idle."""
    spare = at_most = snapshot.free_slots(fleet)
    while True:
        seen = snapshot.read_routes(fleet, at_most)
        decision = admit(seen.snapshot)
        if len(decision.starts) >= spare or not parking.has_candidates(seen, decision):
            return seen, decision
        at_most *= LOOKAHEAD_FACTOR


def _next_wakeup(now: datetime, seen: snapshot.RouteScan, decision: Decision) -> float | None:
    times = [moment for moment in (seen.unblocks_at, decision.wake_at) if moment]
    return max(0.0, (min(times) - now).total_seconds()) if times else None


def _assign_to_free_slots(
    decision: Decision, queue_of: Mapping[int, str], free_slots: FreeSlots
) -> Counter[int]:
    """Which starts go to the free hands: first those matched with this worker, then any it can run."""
    free, handed = free_slots.free, Counter[int]()
    matched = {
        queue: decision.capacity.matched(free_slots.queues, queue) for queue in free_slots.queues
    }
    passed_over: list[int] = []
    for route in decision.starts:
        queue = queue_of[route]
        if free and matched.get(queue, 0):
            free, matched[queue] = free - 1, matched[queue] - 1
            handed[route] += 1
        else:
            passed_over.append(route)
    fitting = [route for route in passed_over if queue_of[route] in free_slots.queues]
    handed.update(fitting[:free])
    return handed


def _grant_leases(
    lock: SchedulerLock,
    counts: Counter[int],
    routes: Mapping[int, WaitingRoute],
    rated: Mapping[int, Mapping[str, float]],
    worker_id: int | None,
) -> list[Grant]:
    """Lease the heads of these routes; to a worker, already started, or to whom the message finds."""
    to = State.RUNNING if worker_id else State.LEASED
    granted = []
    taken = batch_window.drop_cancelled(lock, states.take_heads(counts, to, lock.now))
    for pk, route_id, due_at, _, *columns, payload, context, trace in taken:
        keys = routes[route_id].limit_keys
        known = [keys, sql.as_json(payload), sql.as_json(context), trace]
        granted.append((Grant(*[uuid4(), pk, *columns, *known]), routes[route_id], due_at))
    if worker_id is not None:
        breakers.advance_clocks(Counter(route.id for _, route, _ in granted), rated, lock.now)
    _insert(granted, rated, lock.now, worker_id)
    return [grant for grant, _, _ in granted]


COLUMNS, ROWS_PER_STATEMENT = 18, 1000
"""SQLite allows 32,766 parameters in a statement."""

_INSERT = """
    INSERT INTO queuemgr_lease (id, execution_id, phase, step, priority, limit_keys, due_at,
                                route_id, tokens, cost, weight, retrying, rated,
                                worker_id, leased_at, started_at, expires_at, cancel_requested_by, spent)
    VALUES {rows}
"""


def _insert(
    granted: list[tuple[Grant, WaitingRoute, Any]],
    rated: Mapping[int, Mapping[str, float]],
    now: datetime,
    worker_id: int | None,
) -> None:
    born_started = worker_id is not None
    shared = [
        worker_id,
        now,
        now if born_started else None,
        lease_expiry(now, started=born_started),
        "",
    ]
    parameters: list[Any] = []
    for g, route, due_at in granted:
        moves_on = "" if born_started or not rated[route.id] else json.dumps(rated[route.id])
        parameters += [
            g.lease_id,
            g.execution_id,
            g.phase,
            g.step,
            g.priority,
            g.limit_keys,
            due_at,
        ]
        parameters += [route.id, route.tokens, route.cost, route.weight, route.retrying, moves_on]
        parameters += shared
    for start in range(0, len(granted), ROWS_PER_STATEMENT):
        some = parameters[start * COLUMNS : (start + ROWS_PER_STATEMENT) * COLUMNS]
        rows = ", ".join([f"({sql.marks(COLUMNS)}, 0)"] * (len(some) // COLUMNS))
        sql.run(_INSERT.format(rows=rows), some)


_GRANTS = """
    SELECT l.id, e.id, e.flow, e.key, e.phase, e.step, e.priority, l.limit_keys, e.payload, e.context,
           e.traceparent
      FROM queuemgr_lease l JOIN queuemgr_execution e ON e.id = l.execution_id
     WHERE l.id IN ({ids})
"""


def of_leases(lease_ids: Sequence[UUID]) -> list[Grant]:
    """The grants of leases given out before."""
    found = sql.rows(_GRANTS.format(ids=sql.marks(len(lease_ids))), lease_ids)
    return [_grant(*row) for row in found]


def _grant(lease_id: Any, *row: Any) -> Grant:
    *columns, payload, context, trace = row
    known = [sql.as_json(payload), sql.as_json(context), trace]
    return Grant(*[sql.as_uuid(lease_id), *columns, *known])


def lease_expiry(now: datetime, *, started: bool) -> datetime:
    """When a lease given or renewed now runs out; one nobody began is given out again sooner."""
    config = queue_settings()
    return now + timedelta(seconds=config.lease_seconds if started else config.start_seconds)
