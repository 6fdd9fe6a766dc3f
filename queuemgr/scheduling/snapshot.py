"""Reads what admission decides on: leases, workers, limits, usage, and the heads of routes.

A handful of statements whatever the backlog. Leases are read before anything a lease's start or end
writes (clocks, usage), so that a concurrent start or end is double-counted rather than missed.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from queuemgr.base.config import queue_settings
from queuemgr.base.rate import LEAD
from queuemgr.flows.flow import PRIORITY_NAMES, all_phases, async_queue, queue_name
from queuemgr.scheduling import limit_usage, provider_limits, retry_budget, route_heads
from queuemgr.scheduling.candidates import RouteScan, stopped_queues
from queuemgr.scheduling.capacity import Capacity, Group, async_group_of, group_of, is_either, takes_async
from queuemgr.scheduling.claims import FLEET
from queuemgr.scheduling.decision_input import SchedulingPolicy, Snapshot, WaitingRoute
from queuemgr.scheduling.limit_rules import LimitStates, limit_states_of, read_limit_states
from queuemgr.scheduling.limit_usage import FleetLeases, UsageCount, WorkerSlots


def read_snapshot(now: datetime) -> Snapshot:
    """Everything, parked or not: what explanations, forecasts and pages are made of."""
    fleet = read_fleet(now, keys=True)
    waiting = route_heads.read_all(fleet, max(count_free_slots(fleet), 1))
    return _with_limits_of(fleet, tuple(waiting), every_key=True)


def read_limits(now: datetime, budgets: Collection[str]) -> Snapshot:
    """Every limit with its usage and breaker state, the spent budget of these; no routes."""
    fleet = read_fleet(now, keys=True)
    keyed = {name for name in budgets if name != FLEET and not name.startswith("phase:")}
    return _with_keys(fleet, keyed, every_key=True)


def read_fleet(now: datetime, *, keys: bool = False) -> Snapshot:
    """Leases, workers and the limits every start passes, but no routes. With `keys`: the rules and
    breakers of every key too, but not their usage."""
    held, workers = limit_usage.fleet_leases(now)
    states = read_limit_states(now, keys=keys)
    count = UsageCount({}, states.rules, now)
    count.add_fleet(held)
    use = count.use
    resources = (name for name in states.rules if ":" not in name and not name.endswith("*"))
    wide = {FLEET, *(f"phase:{phase}" for phase in all_phases()), *resources}
    limit_usage.add_allowances(use, states.rules, wide, now)
    unstarted: Counter[str] = Counter()
    for lease in held:
        queue = queue_name(lease.phase, lease.priority)
        unstarted[async_queue(queue) if lease.is_async else queue] += lease.unstarted
    return Snapshot(
        now=now,
        routes=(),
        rules=states.rules,
        use=use,
        paused_queues=states.paused_queues,
        idle=_idle(workers, held),
        unstarted=+unstarted,  # without zeros
        breaker_states=states.breaker_states,
        ordering=policy_in_force(),
        virtual_times=states.virtual_times,
        fully_parked=states.fully_parked,
    )


def read_routes(fleet: Snapshot, at_most: int) -> RouteScan:
    """The routes to decide on, up to so many of each open queue, with the limits of their keys."""
    queues = {queue_name(phase, rank): (phase, rank) for phase in all_phases() for rank in PRIORITY_NAMES}
    stopped = stopped_queues(fleet, queues)
    open_ones = {name: queues[name] for name, reasons in stopped.items() if not reasons}
    free = free_slots(fleet)
    if free.by_kind is None:
        routes = route_heads.read_candidates(fleet, open_ones, at_most, free.total)
        return RouteScan.of(_with_waiting(fleet, routes), routes, at_most, stopped)
    routes, times = [], at_most // max(1, free.total)
    for is_async, some in free.by_kind.items():
        if some:
            routes += route_heads.read_candidates(fleet, open_ones, some * times, some, is_async)
    most = {is_async: max(1, some * times) for is_async, some in free.by_kind.items()}
    return RouteScan.of(_with_waiting(fleet, routes), routes, most, stopped)


def _with_waiting(fleet: Snapshot, routes: Iterable[WaitingRoute]) -> Snapshot:
    return _with_limits_of(fleet, tuple(route for route in routes if not route.is_empty))


class FreeSlotCounts(NamedTuple):
    """Idle slots that no unstarted lease is matched with; a lease no idle worker can take needs none. Where
    workers have async slots, `by_kind` says how many take work of steps that are asynchronous, and of those
    that are not: some take both."""

    total: int
    by_kind: Mapping[bool, int] | None = None


def count_free_slots(fleet: Snapshot) -> int:
    return free_slots(fleet).total


def free_slots(fleet: Snapshot) -> FreeSlotCounts:
    if len(fleet.idle) == 1 and fleet.unstarted.keys() <= next(iter(fleet.idle)):
        return FreeSlotCounts(max(0, sum(fleet.idle.values()) - sum(fleet.unstarted.values())))
    free = Capacity(fleet.idle, fleet.unstarted).free_by_group
    total, of_async = sum(free.values()), [group for group in fleet.idle if takes_async(group)]
    if not of_async:
        return FreeSlotCounts(total)
    takes_both = sum(n for group, n in free.items() if any(is_either(name) for name in group))
    return FreeSlotCounts(total, {False: total - sum(free.get(g, 0) for g in of_async), True: takes_both})


def _with_limits_of(
    fleet: Snapshot, routes: tuple[WaitingRoute, ...], *, every_key: bool = False
) -> Snapshot:
    """The snapshot with these routes and the limits of their keys."""
    retries = retry_budget.left(fleet.now) if any(route.retrying for route in routes) else None
    snapshot = replace(fleet, routes=routes, retries=retries)
    names = {name for route in routes for name in route.limit_keys.split()}
    return _with_keys(snapshot, names, every_key=every_key) if names or every_key else snapshot


def _with_keys(fleet: Snapshot, names: Collection[str], *, every_key: bool) -> Snapshot:
    """Add the usage and the limits of these keys; with `every_key` the usage of all, whose limits were read
    with the fleet."""
    held = limit_usage.keyed_leases(None if every_key else names)
    own = LimitStates() if every_key else limit_states_of(names, fleet.now)
    rules = {**fleet.rules, **own.rules}
    count = UsageCount(fleet.use, rules, fleet.now)
    for lease in held:
        count.add(lease.name, lease)
    use = count.use
    # Patterns are no keys, and the fleet and phases are read apart. A task may name a limit without a colon.
    keys = (name for name in rules if name != FLEET and not name.endswith("*"))
    ruled = {name for name in keys if every_key and not name.startswith("phase:")}
    names = {*names, *ruled, *(lease.name for lease in held)}
    limit_usage.add_allowances(use, rules, names, fleet.now)
    breaker_states = {**fleet.breaker_states, **own.breaker_states}
    said = {name: state.provider_left for name, state in breaker_states.items() if state.provider_left}
    return replace(
        fleet,
        rules=rules,
        use=use,
        breaker_states=breaker_states,
        provider=provider_limits.left(said, fleet.now),
        virtual_times={**fleet.virtual_times, **own.virtual_times},
    )


def _idle(workers: Iterable[WorkerSlots], held: Iterable[FleetLeases]) -> dict[Group, int]:
    running: Counter[tuple[int | None, bool]] = Counter()
    for lease in held:
        running[lease.worker_id, bool(lease.is_async)] += lease.leases - lease.unstarted
    idle: dict[Group, int] = defaultdict(int)
    for worker in workers:
        queues, has_async = json.loads(worker.queues), worker.async_slots > 0
        idle[group_of(queues, has_async=has_async)] += max(0, worker.slots - running[worker.id, False])
        if has_async:
            free = worker.async_slots - running[worker.id, True]
            idle[async_group_of(queues)] += max(0, free)
    return dict(idle)


def policy_in_force() -> SchedulingPolicy:
    config = queue_settings()
    if not config.scheduler:
        return SchedulingPolicy(shares=False, lead=LEAD)
    starvation, heavy_wait = config.starvation_seconds, config.heavy_wait_seconds
    return SchedulingPolicy(
        starvation=timedelta(seconds=starvation) if starvation else None,
        heavy_wait=timedelta(seconds=heavy_wait) if heavy_wait else None,
        lead=LEAD,
    )
