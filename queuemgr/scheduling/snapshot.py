"""Reading what admission looks at: leases, workers, limits, usage, and the heads of routes.

A handful of statements whatever the backlog: waiting work is met by index at the head of each route
that is not parked, and never counted further than there are idle slots. Leases are read before
anything a lease's beginning or end writes (clocks of rates, usage), so what changes meanwhile is
counted twice rather than not at all.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from queuemgr.base import sql
from queuemgr.base.budget_day import day_of
from queuemgr.base.config import queue_settings
from queuemgr.flows.flow import PRIORITY_NAMES, all_phases, queue_name
from queuemgr.scheduling import retry_budget, tenants
from queuemgr.scheduling.admission import (
    LimitRule,
    SchedulingPolicy,
    Snapshot,
    Usage,
    WaitingRoute,
    rule_for,
)
from queuemgr.scheduling.candidates import Candidate, Queues, RouteScan, stopped_queues
from queuemgr.scheduling.capacity import Capacity, Group
from queuemgr.scheduling.claims import FLEET, names_of
from queuemgr.scheduling.limit_rules import LimitStates, limit_states_of, read_limit_states

_LEASES = """
    SELECT phase, priority, tokens, worker_id, COUNT(*), SUM(weight), SUM(cost),
           SUM(CASE WHEN started_at IS NULL THEN 1 ELSE 0 END),
           CASE WHEN cost > 0 THEN leased_at END AS paid_at
      FROM queuemgr_lease
     GROUP BY phase, priority, tokens, worker_id, paid_at
"""

_KEYED_LEASES = """
    SELECT k.name, l.priority, COUNT(*), SUM(l.weight), SUM(l.cost),
           SUM(CASE WHEN l.started_at IS NULL THEN 1 ELSE 0 END),
           CASE WHEN l.cost > 0 THEN l.leased_at END AS paid_at
      FROM queuemgr_lease l JOIN queuemgr_routelimit k ON k.route_id = l.route_id
     WHERE {of_these}
     GROUP BY k.name, l.priority, paid_at
"""

_WORKERS = """
    SELECT id, queues, slots FROM queuemgr_worker WHERE seen_at > %s AND draining_at IS NULL
"""

_ALL = "1 = 1"

_USAGE = """
    SELECT day, limit_name, spent FROM queuemgr_dailyusage
     WHERE day IN ({days}) AND limit_name IN ({names})
"""

_ROUTES = """
    SELECT r.id, r.phase, r.priority, r.resumed, r.retrying, r.limit_keys, r.tokens, r.cost,
               r.weight, r.served_at, r.head_at AS seen_head, r.parked_until IS NOT NULL AS parked,
               (SELECT e.run_after FROM queuemgr_execution e
                 WHERE e.route_id = r.id AND e.state = 'waiting'
                 ORDER BY e.run_after, e.id LIMIT 1) AS head,
               (SELECT COUNT(*) FROM (
                   SELECT 1 FROM queuemgr_execution d
                    WHERE d.route_id = r.id AND d.state = 'waiting' AND d.run_after <= %s
                    LIMIT %s) AS heads) AS due,
               (SELECT COUNT(*) FROM (
                   SELECT 1 FROM queuemgr_execution o
                    WHERE o.route_id = r.id AND o.state = 'waiting' AND o.run_after <= %s
                    LIMIT %s) AS old) AS overdue
          FROM queuemgr_route r
         WHERE {of_these}
"""

_TURNS = """
    SELECT id FROM (SELECT id FROM queuemgr_route
     WHERE phase = %s AND priority = %s AND resumed = %s AND parked_on = ''
     ORDER BY served_at LIMIT %s) AS in_turn
"""

_TENANTS_TURNS = """
    SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY tenant ORDER BY served_at) AS nth
      FROM queuemgr_route
     WHERE phase = %s AND priority = %s AND resumed = %s AND parked_on = '') AS in_turn
     WHERE nth <= %s
"""

_AGED = """
    SELECT id FROM (SELECT id FROM queuemgr_route
     WHERE parked_on = '' AND head_at < %s AND priority > 0
     ORDER BY head_at LIMIT %s) AS aged
"""

_TIMER_DUE = """
    SELECT id FROM (SELECT id FROM queuemgr_route
     WHERE parked_until IS NOT NULL AND parked_until <= %s
     ORDER BY parked_until LIMIT %s) AS in_time
"""


def read(now: datetime) -> Snapshot:
    """Everything, parked or not: what explanations, forecasts and pages are made of."""
    fleet = read_fleet(now, keys=True)
    waiting = [r.route for r in _rows(fleet, max(free_slots(fleet), 1), _ALL, []) if r.route]
    return _with_limits_of(fleet, tuple(waiting), everything=True)


def read_limits(now: datetime, budgets: Collection[str]) -> Snapshot:
    """Every limit with its usage and breaker state, the spent budget of these; no routes."""
    fleet = read_fleet(now, keys=True)
    keyed = {name for name in budgets if name != FLEET and not name.startswith("phase:")}
    return _with_keys(fleet, keyed, everything=True)


def read_fleet(now: datetime, *, keys: bool = False) -> Snapshot:
    """Leases, workers and the limits everything passes, but no routes; with the limits of every key,
    but not yet their use, where all of them will be looked at."""
    held = [_Held._make(row) for row in sql.rows(_LEASES)]
    states = read_limit_states(now, keys=keys)
    rules = states.rules
    use: defaultdict[str, Usage] = defaultdict(Usage)
    for lease in held:
        for name in names_of(lease.phase, "", ""):
            _count(use[name], lease, rules, name, now)
        for part in lease.tokens.split():
            token, _, weight = part.rpartition("=")
            taken = lease._replace(weight=lease.leases * int(weight))
            _count(use[token], taken, rules, token, now)
    _add_spent(use, rules, [FLEET, *(f"phase:{phase}" for phase in all_phases())], now)
    return Snapshot(
        now=now,
        routes=(),
        rules=rules,
        use=use,
        paused_queues=states.paused_queues,
        idle=_idle(now, held),
        on_their_way=_on_their_way(held),
        breaker_states=states.breaker_states,
        ordering=policy_in_force(),
        virtual_times=states.virtual_times,
        quiet=states.quiet,
    )


def read_routes(fleet: Snapshot, at_most: int) -> RouteScan:
    """The routes whose turn it is, up to so many of each queue that is open, with their limits."""
    queues = {
        queue_name(phase, rank): (phase, rank) for phase in all_phases() for rank in PRIORITY_NAMES
    }
    stopped = stopped_queues(fleet, queues)
    open_ones = {name: queues[name] for name, reasons in stopped.items() if not reasons}
    arms, parameters = _candidate_subqueries(fleet, open_ones, at_most)
    rows = _rows(fleet, free_slots(fleet), f"r.id IN ({arms})", parameters) if arms else []
    snapshot = _with_limits_of(fleet, tuple(row.route for row in rows if row.route))
    return RouteScan.of(snapshot, rows, at_most, stopped)


def free_slots(fleet: Snapshot) -> int:
    """Idle slots with no lease on its way to them; a lease nobody idle can take holds none of them."""
    if len(fleet.idle) == 1 and fleet.on_their_way.keys() <= next(iter(fleet.idle)):
        return max(0, sum(fleet.idle.values()) - sum(fleet.on_their_way.values()))
    return Capacity(fleet.idle, fleet.on_their_way).free


def live_since(now: datetime) -> datetime:
    """A worker not seen since then (three signs of life missed) is taken for gone."""
    return now - timedelta(seconds=3 * queue_settings().worker_heartbeat_seconds)


def _candidate_subqueries(fleet: Snapshot, queues: Queues, at_most: int) -> tuple[str, list[Any]]:
    """The ids of routes to look at: by turn in each open queue, of great age, and due in time."""
    if not queues:
        return "", []
    turns = _TENANTS_TURNS if fleet.ordering.shares and tenants.any_tenants() else _TURNS
    arms, parameters = [_TIMER_DUE], [fleet.now, at_most]
    if fleet.ordering.starvation:
        arms.append(_AGED)
        parameters += [fleet.now - fleet.ordering.starvation, at_most]
    for name, (phase, rank) in queues.items():
        for resumed in (True, False):
            if (name, resumed) not in fleet.quiet:
                arms.append(turns)
                parameters += [phase, rank, resumed, at_most]
    return " UNION ALL ".join(arms), parameters


def _rows(
    fleet: Snapshot, look_ahead: int, of_these: str, parameters: list[Any]
) -> list[Candidate]:
    starvation = fleet.ordering.starvation
    aged_since = fleet.now - (starvation or timedelta(days=36_500))
    found = sql.rows(
        _ROUTES.format(of_these=of_these),
        [fleet.now, look_ahead, aged_since, look_ahead, *parameters],
    )
    ranks = {name: phase.rank for name, phase in all_phases().items()}
    return [_row(ranks, *row) for row in found]


def _row(
    ranks: Mapping[str, int], pk: int, phase: str, priority: int, resumed: Any, retrying: Any,
    keys: str, tokens: str, cost: int, weight: int, served: Any, seen_head: Any, parked: Any,
    head: Any, due: int, overdue: int,
) -> Candidate:  # fmt: skip
    route = None if head is None else WaitingRoute(
        id=pk, phase=phase, priority=priority, resumed=bool(resumed), limit_keys=keys, cost=cost,
        weight=weight, due=due, head_at=sql.as_datetime(head), served_at=sql.as_datetime(served),
        phase_rank=ranks.get(phase, len(ranks)), tokens=tokens, retrying=bool(retrying),
        overdue=overdue,
    )  # fmt: skip
    before = None if seen_head is None else sql.as_datetime(seen_head)
    return Candidate(pk, queue_name(phase, priority), bool(resumed), before, bool(parked), route)


def _with_limits_of(
    fleet: Snapshot, routes: tuple[WaitingRoute, ...], *, everything: bool = False
) -> Snapshot:
    """The snapshot with these routes and the limits they pass by key."""
    retries = retry_budget.left(fleet.now) if any(route.retrying for route in routes) else None
    seen = replace(fleet, routes=routes, retries=retries)
    names = {name for route in routes for name in route.limit_keys.split()}
    return _with_keys(seen, names, everything=everything) if names or everything else seen


def _with_keys(seen: Snapshot, names: Collection[str], *, everything: bool) -> Snapshot:
    """Leases are read first: what starts or ends meanwhile is then counted twice, never missed. Rules and
    breaker states of all keys were read with the fleet."""
    held = _keyed_leases(names, everything)
    own = LimitStates() if everything else limit_states_of(names, seen.now)
    rules = {**seen.rules, **own.rules}
    use = defaultdict(Usage, seen.use)
    for lease in held:
        _count(use[lease.name], lease, rules, lease.name, seen.now)
    keys = _keys_among(rules) if everything else ()
    _add_spent(use, rules, {*names, *keys, *(lease.name for lease in held)}, seen.now)
    return replace(
        seen,
        rules=rules,
        use=use,
        breaker_states={**seen.breaker_states, **own.breaker_states},
        virtual_times={**seen.virtual_times, **own.virtual_times},
    )


def _keys_among(names: Iterable[str]) -> Iterator[str]:
    """The limits of single keys: neither patterns, nor the fleet and its phases, which are read
    with the fleet."""
    return (n for n in names if ":" in n and not n.endswith("*") and not n.startswith("phase:"))


def _keyed_leases(names: Collection[str], everything: bool) -> list[_Keyed]:
    if everything:
        found = sql.rows(_KEYED_LEASES.format(of_these=_ALL))
    else:
        of_these = f"k.name IN ({sql.marks(len(names))})"
        found = sql.rows(_KEYED_LEASES.format(of_these=of_these), list(names))
    return [_Keyed._make(row) for row in found]


class _Held(NamedTuple):
    """Leases alike in all that admission counts of the whole fleet."""

    phase: str
    priority: int
    tokens: str
    worker: int | None
    leases: int
    weight: int
    cost: int
    unstarted: int
    paid_at: Any


class _Keyed(NamedTuple):
    """Leases under one key, alike in all that admission counts."""

    name: str
    priority: int
    leases: int
    weight: int
    cost: int
    unstarted: int
    paid_at: Any


def _count(
    use: Usage, lease: _Held | _Keyed, rules: Mapping[str, LimitRule], name: str, now: datetime
) -> None:
    use.hold(int(lease.weight), lease.priority, lease.leases, int(lease.unstarted))
    if lease.cost and _is_today(sql.as_datetime(lease.paid_at), rule_for(rules, name), now):
        use.reserved += int(lease.cost)


def _is_today(moment: datetime, rule: LimitRule, now: datetime) -> bool:
    return day_of(moment, rule.budget_zone) == day_of(now, rule.budget_zone)


def _add_spent(
    use: defaultdict[str, Usage],
    rules: Mapping[str, LimitRule],
    names: Iterable[str],
    now: datetime,
) -> None:
    """What was spent today, by the day of each limit's own zone; only where there is a budget."""
    today: dict[str, date] = {}
    for name in names:
        rule = rule_for(rules, name)
        if rule.daily_budget is not None:
            today[name] = day_of(now, rule.budget_zone)
    if not today:
        return
    days = sorted(set(today.values()))
    statement = _USAGE.format(days=sql.marks(len(days)), names=sql.marks(len(today)))
    for day, name, spent in sql.rows(statement, [*days, *today]):
        if sql.as_date(day) == today[name]:
            use[name].spent += spent


def _idle(now: datetime, held: Iterable[_Held]) -> dict[Group, int]:
    running: Counter[int | None] = Counter()
    for lease in held:
        running[lease.worker] += lease.leases - lease.unstarted
    idle: dict[Group, int] = defaultdict(int)
    for pk, queues, slots in sql.rows(_WORKERS, [live_since(now)]):
        idle[frozenset(json.loads(queues))] += max(0, slots - running[pk])
    return dict(idle)


def _on_their_way(held: Iterable[_Held]) -> dict[str, int]:
    waiting: Counter[str] = Counter()
    for lease in held:
        if lease.unstarted:
            waiting[queue_name(lease.phase, lease.priority)] += lease.unstarted
    return dict(waiting)


def policy_in_force() -> SchedulingPolicy:
    """The order of starts the settings state."""
    config = queue_settings()
    if not config.scheduler:
        return SchedulingPolicy(shares=False)
    return SchedulingPolicy(
        starvation=_or_never(config.starvation_seconds),
        heavy_wait=_or_never(config.heavy_wait_seconds),
    )


def _or_never(seconds: float) -> timedelta | None:
    return timedelta(seconds=seconds) if seconds else None
