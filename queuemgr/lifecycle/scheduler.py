"""One scheduling pass: read the state, decide what starts, and insert its leases, in one transaction.

A few statements whatever the number of starts. A lease for a slot that just came free starts at once;
any other waits for the worker its message reaches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from uuid import uuid4

from queuemgr.base import sql
from queuemgr.base.drawn import Drawn
from queuemgr.base.scheduler_lock import SchedulerLock, has_sessions
from queuemgr.base.sql_lists import NOTHING, Listed
from queuemgr.lifecycle import (
    batch_completion,
    batch_window,
    execution_signals,
    leases,
    states,
    unknown_steps,
)
from queuemgr.lifecycle.leases import Grant, LeaseRow, lease_expiry
from queuemgr.models import State
from queuemgr.scheduling import breakers, candidates, parking, rate_clocks, wakeups
from queuemgr.scheduling.admission import Decision
from queuemgr.scheduling.candidates import RouteScan
from queuemgr.scheduling.capacity import Group, takes_async
from queuemgr.scheduling.decision_input import Snapshot, WaitingRoute, debits_of
from queuemgr.scheduling.parking import NO_ROUTES, Woken
from queuemgr.scheduling.snapshot import count_free_slots, read_fleet, read_routes


@dataclass(frozen=True, slots=True)
class FreeSlots:
    """Slots of one worker that just came free and ask for work: its row, what they take, how many, and
    whether they are async slots."""

    worker_id: int
    takes: Group
    free: int

    @property
    def is_async(self) -> bool:
        return takes_async(self.takes)


@dataclass(frozen=True, slots=True)
class GrantResult:
    """Leases assigned to the free slots, leases to be sent as messages, and the seconds until the next
    decision could differ (None: only an event can change it)."""

    assigned: list[Grant]
    to_send: list[Grant]
    next_wakeup: float | None = None


NO_GRANTS = GrantResult([], [])


def schedule(
    lock: SchedulerLock, free_slots: FreeSlots | None = None, woken: Woken = NO_ROUTES
) -> GrantResult:
    """Grant leases to all that may start now, to routes `woken` by the caller too; those `free_slots` can run
    are assigned to them."""
    more_to_cancel = batch_completion.advance_batches(lock, wakeups.consume(lock, woken))
    fleet = read_fleet(lock.now)
    idle = count_free_slots(fleet)
    if not idle:
        return GrantResult([], [], 0.0) if more_to_cancel else NO_GRANTS
    scan, decision = candidates.decide(partial(read_routes, fleet), idle)
    saving = parking.saving(scan, decision)
    with_heads = [saving.pop()] if saving and decision.starts and has_sessions() else []
    for statement in saving:
        sql.run(*statement)
    breakers.save_virtual_times(lock, decision.virtual_times)
    next_wakeup = lock.now if more_to_cancel else _next_wakeup(lock, scan, decision)
    wakeup = max(0.0, (next_wakeup - lock.now).total_seconds()) if next_wakeup else None
    if not decision.starts:
        rate_clocks.limit_clocks(lock, scan.snapshot)
        return GrantResult([], [], wakeup)
    assigned = assign(decision, scan.snapshot, free_slots) if free_slots else Counter[int]()
    to_send = Counter(decision.starts) - assigned
    to_async_slots = sent_to_async_slots(decision, scan.snapshot, to_send, assigned, free_slots)
    grant = partial(_grant, lock, scan.snapshot, with_heads)
    granted = GrantResult(
        grant(assigned, free_slots) if free_slots else [],
        [*grant(to_send - to_async_slots), *grant(to_async_slots, is_async=True)],
        wakeup,
    )
    rate_clocks.limit_clocks(lock, scan.snapshot)
    execution_signals.started(granted.assigned)
    if len(granted.assigned) + len(granted.to_send) < len(decision.starts):
        _unpark_passed_over(lock, scan.snapshot, decision)
        soon = PASSED_OVER_SECONDS if wakeup is None else min(wakeup, PASSED_OVER_SECONDS)
        return replace(granted, next_wakeup=soon)
    return granted


PASSED_OVER_SECONDS = 1.0
"""When to decide again after fewer heads were taken than were to start: somebody has locked some, and says
nothing when they are free."""


def _unpark_passed_over(lock: SchedulerLock, snapshot: Snapshot, decision: Decision) -> None:
    """Have routes read again that were parked as if all of these starts had been."""
    started = frozenset(decision.starts)
    routes = [route for route in snapshot.routes if route.id in started]
    freed = (wakeups.freed_by(r.phase, r.limit_keys, r.resources, refunded=True) for r in routes)
    parking.unpark(lock, started, set[str]().union(*freed))


def _next_wakeup(lock: SchedulerLock, scan: RouteScan, decision: Decision) -> datetime | None:
    """When time alone may let something start: of what was read, and of what is parked until a time and so
    was not. With no slot left idle only an event can."""
    if not decision.capacity.free:
        return None
    times = (scan.next_wakeup(decision), parking.next_opening(lock.now))
    return min((moment for moment in times if moment), default=None)


def assign(decision: Decision, snapshot: Snapshot, free_slots: FreeSlots) -> Counter[int]:
    """Which starts the free slots take: first those matched with this worker, then any it can run."""
    slots = {route.id: route.slot for route in snapshot.routes}
    free, assigned = free_slots.free, Counter[int]()
    matched = {name: decision.capacity.matched(free_slots.takes, name) for name in free_slots.takes}
    others: list[int] = []
    for route in decision.starts:
        slot = slots[route]
        if free and matched.get(slot, 0):
            free, matched[slot] = free - 1, matched[slot] - 1
            assigned[route] += 1
        else:
            others.append(route)
    fitting = [route for route in others if slots[route] in free_slots.takes]
    assigned.update(fitting[:free])
    return assigned


def sent_to_async_slots(
    decision: Decision,
    snapshot: Snapshot,
    to_send: Counter[int],
    assigned: Counter[int],
    free_slots: FreeSlots | None,
) -> Counter[int]:
    """How many starts of each route are sent to async slots: as many as were matched with such, without those
    that free ones have taken."""
    routes = [route for route in snapshot.routes if route.is_async and route.id in to_send]
    left = {route.queue: decision.capacity.matched_async(route.queue) for route in routes}
    if free_slots and free_slots.is_async:
        for route in snapshot.routes:
            if route.queue in left:
                left[route.queue] -= assigned[route.id]
    sent = Counter[int]()
    for route in routes:
        some = max(0, min(to_send[route.id], left[route.queue]))
        left[route.queue] -= some
        sent[route.id] = some
    return +sent


def _grant(
    lock: SchedulerLock,
    snapshot: Snapshot,
    with_heads: list[Listed],
    counts: Counter[int],
    free_slots: FreeSlots | None = None,
    *,
    is_async: bool = False,
) -> list[Grant]:
    """Lease the heads of these routes: to these free slots, already started, or to be sent. The first that
    takes any runs the statement in `with_heads`, if there is one, in the same round trip."""
    if not counts:
        return []
    worker_id = free_slots.worker_id if free_slots else None
    is_async = free_slots.is_async if free_slots else is_async
    routes = {route.id: route for route in snapshot.routes if route.id in counts}
    debits = {pk: _debits(snapshot, route) for pk, route in routes.items()}
    to = State.LEASED if worker_id is None else State.RUNNING
    beside = with_heads.pop() if with_heads else NOTHING
    heads = batch_window.drop_cancelled(lock, states.take_heads(counts, to, lock.now, beside))
    if worker_id is not None:
        heads = unknown_steps.keep_known(heads, lock.now)
    bookings = [rate_clocks.NO_BOOKING] * len(heads)
    if worker_id is not None:
        bookings = rate_clocks.book_starts([debits[head.route_id] for head in heads])
    rows = [
        _lease(lock.now, head, routes[head.route_id], debits[head.route_id], worker_id, booking)._replace(
            is_async=is_async
        )
        for head, booking in zip(heads, bookings, strict=True)
    ]
    leases.insert(rows)
    return [
        Grant(
            lease_id=lease.id, execution_id=head.id, flow=head.flow, key=head.key, phase=head.phase,
            step=head.step, priority=head.priority, limit_keys=lease.limit_keys, payload=head.payload,
            context=head.context, traceparent=head.traceparent, not_before=booking.not_before,
            is_async=is_async,
        )
        for lease, head, booking in zip(rows, heads, bookings, strict=True)
    ]  # fmt: skip


def _debits(snapshot: Snapshot, route: WaitingRoute) -> dict[str, Drawn]:
    """What a start of this route takes of the clocks of rates and rolling allowances."""
    return debits_of(snapshot.rules, [name for name, _ in route.claims], route.amounts)


def _lease(
    now: datetime,
    head: states.Head,
    route: WaitingRoute,
    debits: Mapping[str, Drawn],
    worker_id: int | None,
    booking: rate_clocks.Booking,
) -> LeaseRow:
    """`debits` are what its start takes of clocks; `booking` is when an assigned one starts."""
    started = worker_id is not None
    taken = rate_clocks.booked_text(booking.booked) if started else rate_clocks.debits_text(debits)
    return LeaseRow(
        id=uuid4(), execution_id=head.id, phase=head.phase, step=head.step,
        priority=head.priority, limit_keys=route.limit_keys, due_at=head.run_after,
        route_id=route.id, resources=route.resources, cost=route.cost, weight=route.weight,
        retrying=route.retrying, rate_debits=taken, uses=route.uses,
        worker_id=worker_id, leased_at=now, started_at=(booking.at or now) if started else None,
        expires_at=lease_expiry(now, started=started),
    )  # fmt: skip
