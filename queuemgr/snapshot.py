"""Reading what admission looks at: leases, workers, limits, usage, and the heads of routes.

A handful of statements whatever the backlog: waiting work is met by index at the head of each
route and never counted further than there are idle slots.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, time, timedelta
from typing import Any, NamedTuple

from queuemgr import sql
from queuemgr.admission import FLEET, Reason, Rule, Snapshot, Use, WaitingRoute
from queuemgr.capacity import Group
from queuemgr.flow import HIGH, all_phases, queue_name
from queuemgr.knobs import queue_knobs
from queuemgr.models import pause_sentence

_LEASES = """
    SELECT phase, priority, limit_key, worker_id, budget_day,
           COUNT(*), SUM(weight), SUM(cost), SUM(CASE WHEN started_at IS NULL THEN 1 ELSE 0 END)
      FROM queuemgr_lease
     GROUP BY phase, priority, limit_key, worker_id, budget_day
"""

_WORKERS = """
    SELECT id, queues, slots FROM queuemgr_worker WHERE seen_at > %s AND draining_at IS NULL
"""

_RULES = """
    SELECT 'limit', name, max_running, reserved_high, daily_budget,
           paused_at, paused_by, pause_reason, paused_until
      FROM queuemgr_limit
     UNION ALL
    SELECT 'queue', name, 0, 0, NULL, paused_at, paused_by, pause_reason, paused_until
      FROM queuemgr_queue WHERE paused_at IS NOT NULL
"""

_USAGE = "SELECT phase, spent FROM queuemgr_dailyusage WHERE day = %s"

_ROUTES = """
    SELECT * FROM (
        SELECT r.id, r.phase, r.priority, r.resumed, r.limit_key, r.cost, r.weight, r.served_at,
               (SELECT e.run_after FROM queuemgr_execution e
                 WHERE e.route_id = r.id AND e.state = 'waiting'
                 ORDER BY e.run_after, e.id LIMIT 1) AS head_at,
               (SELECT COUNT(*) FROM (
                   SELECT 1 FROM queuemgr_execution d
                    WHERE d.route_id = r.id AND d.state = 'waiting' AND d.run_after <= %s
                    LIMIT %s) AS heads) AS due
          FROM queuemgr_route r) AS routes
     WHERE head_at IS NOT NULL
"""


def read(now: datetime, *, explain: bool = False) -> Snapshot:
    """The snapshot at `now`; inside the fleet's lock it is exact.

    With no slot idle nothing can start, and routes are not looked at unless `explain` asks why.
    """
    held = [_Held._make(row) for row in sql.rows(_LEASES)]
    idle, on_their_way = _idle(now, held), _on_their_way(held)
    spare = max(0, sum(idle.values()) - sum(on_their_way.values()))
    look_ahead = max(spare, 1) if explain else spare
    rules, paused_queues = read_rules(now)
    return Snapshot(
        now=now,
        routes=tuple(_routes(now, look_ahead)) if look_ahead else (),
        rules=rules,
        use=_use(held, now),
        paused_queues=paused_queues,
        idle=idle,
        on_their_way=on_their_way,
        day_ends=day_ends(now),
    )


def day_ends(now: datetime) -> datetime:
    """The next 00:00 UTC, when the daily budget starts afresh."""
    return datetime.combine(now.astimezone(UTC).date() + timedelta(days=1), time(), UTC)


def live_since(now: datetime) -> datetime:
    """A worker not seen since then (three signs of life missed) is taken for gone."""
    return now - timedelta(seconds=3 * queue_knobs().presence_seconds)


class _Held(NamedTuple):
    """One group of leases alike in all that admission counts."""

    phase: str
    priority: int
    limit_key: str
    worker: int | None
    day: Any
    leases: int
    weight: int
    cost: int
    unstarted: int


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


def _use(held: Iterable[_Held], now: datetime) -> dict[str, Use]:
    today = now.astimezone(UTC).date()
    use: defaultdict[str, Use] = defaultdict(Use)
    for lease in held:
        names = [FLEET, f"phase:{lease.phase}", *([lease.limit_key] if lease.limit_key else [])]
        for name in names:
            use[name].running += int(lease.weight)
            use[name].below_high += int(lease.weight) if lease.priority != HIGH else 0
            use[name].reserved += int(lease.cost) if sql.as_date(lease.day) == today else 0
    for phase, spent in sql.rows(_USAGE, [today]):
        use[FLEET].spent += spent
        use[f"phase:{phase}"].spent += spent
    return dict(use)


def read_rules(now: datetime) -> tuple[dict[str, Rule], dict[str, Reason]]:
    """Every limit's rule as it stands at `now`, and every paused queue's reason."""
    rules: dict[str, Rule] = {}
    paused: dict[str, Reason] = {}
    for of, name, most, reserved, budget, *pause in sql.rows(_RULES):
        sentence, until = _pause(now, *pause)
        if of == "limit":
            rules[name] = Rule(most, reserved, budget, sentence, until)
        elif sentence:
            paused[name] = Reason(name, f"{name} {sentence}", until)
    return rules, paused


def _pause(now: datetime, at: Any, by: str, reason: str, until: Any) -> tuple[str, datetime | None]:
    """The sentence of a pause in force, and when it ends; empty when there is none."""
    ends = sql.as_datetime(until) if until else None
    if at is None or (ends is not None and ends <= now):
        return "", None
    return pause_sentence(by, reason, ends), ends


def _routes(now: datetime, look_ahead: int) -> Iterable[WaitingRoute]:
    ranks = {name: phase.rank for name, phase in all_phases().items()}
    for pk, phase, priority, resumed, key, cost, weight, served, head, due in sql.rows(
        _ROUTES, [now, look_ahead]
    ):
        yield WaitingRoute(
            id=pk,
            phase=phase,
            priority=priority,
            resumed=bool(resumed),
            limit_key=key,
            cost=cost,
            weight=weight,
            due=due,
            head_at=sql.as_datetime(head),
            served_at=sql.as_datetime(served),
            phase_rank=ranks.get(phase, len(ranks)),
        )
