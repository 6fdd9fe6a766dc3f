"""What must hold of the rows after every move, counted plainly and apart from the product's own SQL."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from queuemgr.base.budget_day import day_of
from queuemgr.base.rate import Rate
from queuemgr.flows.flow import HIGH, get_flow
from queuemgr.models import FINAL, AllowanceUsage, Attempt, Execution, Lease, LimitState, Route, State
from queuemgr.scheduling import snapshot
from queuemgr.scheduling.admission import admit
from queuemgr.scheduling.claims import claims_of
from queuemgr.scheduling.decision_input import BreakerState, LimitRule, rule_for
from queuemgr.scheduling.limit_rules import read_rules
from queuemgr.scheduling.routes import kind_of


@dataclass
class Taken:
    """What counts against one limit, and the leases that do."""

    running: int = 0
    below_high: int = 0
    charged: int = 0
    leases: set[UUID] = field(default_factory=set)


@dataclass(frozen=True)
class Books:
    """All limits as the rows have them at one moment."""

    taken: Mapping[str, Taken]
    rules: Mapping[str, LimitRule]
    breakers: Mapping[str, BreakerState]
    paused_queues: frozenset[str]
    queue_of: Mapping[UUID, str]
    now: datetime

    def of(self, name: str) -> Taken:
        return self.taken.get(name, Taken())


def names_under(row: Lease | Attempt) -> dict[str, int]:
    """The limits a lease or an attempt passed, with what it took of each."""
    return dict(claims_of(row.phase, row.limit_keys, row.resources, row.weight))


def books(now: datetime) -> Books:
    taken: defaultdict[str, Taken] = defaultdict(Taken)
    rules, queue_of = read_rules(now), {}
    for lease in Lease.objects.all():
        queue_of[lease.pk] = f"{lease.phase}.{lease.get_priority_display()}"
        for name, weight in names_under(lease).items():
            zone = rule_for(rules, name).budget_zone
            entry = taken[name]
            entry.running += weight
            entry.below_high += weight if lease.priority != HIGH else 0
            entry.leases.add(lease.pk)
            if day_of(lease.leased_at, zone) == day_of(now, zone):
                entry.charged += lease.cost
    for usage in AllowanceUsage.objects.filter(allowance="requests/day"):
        zone = rule_for(rules, usage.limit).budget_zone
        if day_of(usage.starts_at, zone) == day_of(now, zone):
            taken[usage.limit].charged += usage.spent
    breakers = {
        state.name: BreakerState(state.open_until, state.open_reason, state.half_open_starts)
        for state in LimitState.objects.all()
    }
    paused = frozenset(snapshot.read_fleet(now).paused_queues)
    return Books(taken, rules, breakers, paused, queue_of, now)


def no_limit_is_passed(before: Books, after: Books) -> None:
    """A limit lowered below what counts against it only drains: it may be over, and never more so."""
    for name, taken in after.taken.items():
        rule, had = rule_for(after.rules, name), before.of(name)
        new = taken.leases - had.leases
        if rule.max_running:
            assert taken.running <= max(rule.max_running, had.running), (name, rule, taken)
            for_all = rule.max_running - rule.reserved_high
            assert taken.below_high <= max(for_all, had.below_high), (name, rule, taken)
        if rule.budget:
            assert taken.charged <= max(rule.budget.amount, had.charged), (name, rule, taken)
        assert not (rule.paused and new), f"{name} is {rule.paused} and lets {new} through"
        _breaker_holds(name, before, after, new)
    for lease, queue in after.queue_of.items():
        assert lease in before.queue_of or queue not in after.paused_queues, f"{queue} is paused"


def _breaker_holds(name: str, before: Books, after: Books, new: set[UUID]) -> None:
    """Checked only where no result within this same move opened it: that may come after a start."""
    was, state = before.breakers.get(name), after.breakers.get(name)
    if was is None or state is None or was.open_until != state.open_until:
        return
    if state.open_until and state.open_until > after.now:
        assert not new, f"the breaker of {name} is open and {new} started"
    elif state.half_open_starts and was.half_open_starts:
        most = max(state.half_open_starts, len(before.of(name).leases))
        assert len(after.of(name).leases) <= most, f"{name} is half-open, {state.half_open_starts} at a time"


def every_execution_is_in_one_place() -> None:
    """Held executions and leases are one to one; a waiting one waits where its kind does."""
    leases = {lease.execution_id: lease for lease in Lease.objects.all()}
    routes = Route.objects.in_bulk()
    for execution in Execution.objects.all():
        lease = leases.pop(execution.pk, None)
        if execution.state == State.WAITING:
            assert lease is None, f"{execution} waits and is leased"
            _waits_where_its_kind_does(execution, routes[execution.route_id or 0])
        elif execution.state == State.LEASED:
            assert lease is not None and lease.started_at is None
        elif execution.state == State.RUNNING:
            assert lease is not None and lease.started_at is not None
        else:
            assert lease is None and execution.state in FINAL and execution.finished_at
    assert not leases


def _waits_where_its_kind_does(execution: Execution, route: Route) -> None:
    step_ref = get_flow(execution.flow).at(execution.phase, execution.step)
    kind = kind_of(step_ref, execution.priority, execution.inputs, resumed=execution.resumed)
    expected = {name: value for name, value in vars(kind).items() if name != "retrying"}
    there = {name: getattr(route, name) for name in expected}
    assert there == expected, f"{execution} is {expected} and waits with {there}"


def attempts_and_charges_add_up() -> None:
    """A lease that left an attempt is gone; all that was spent was charged to every limit passed."""
    attempts = list(Attempt.objects.all())
    ended = {attempt.lease_id for attempt in attempts}
    assert len(ended) == len(attempts)
    assert not ended & set(Lease.objects.values_list("pk", flat=True))
    spent: Counter[str] = Counter()
    for attempt in attempts:
        for name in claims_of(attempt.phase, attempt.limit_keys, "", 1):
            spent[name[0]] += attempt.cost
    charged: Counter[str] = Counter()
    for usage in AllowanceUsage.objects.filter(allowance="requests/day"):
        charged[usage.limit] += usage.spent
    assert +charged == +spent


def begins_conform(name: str, rate: Rate, not_counted: set[UUID]) -> None:
    """Over any span of time at most burst + span / interval begin."""
    ran = [(a.lease_id, a) for a in Attempt.objects.all()]
    runs = [(lease.pk, lease) for lease in Lease.objects.started()]
    times = sorted(
        row.started_at.timestamp()
        for pk, row in (*ran, *runs)
        if pk not in not_counted and name in names_under(row) and row.started_at
    )
    for first, start in enumerate(times):
        for last in range(first, len(times)):
            most = rate.burst + (times[last] - start + 1e-3) / rate.interval
            assert last - first + 1 <= most, f"{name} let {times[first : last + 1]} begin at {rate}"


def left_unstarted(now: datetime) -> dict[str, int]:
    """What a look at everything, parked or not, would start now: nothing, right after a decision.

    Retries held back by the retry budget are looked at every few seconds and no sooner.
    """
    seen = snapshot.read_snapshot(now)
    starts = Counter(admit(seen).starts)
    held_back = Route.objects.filter(parked_on="retries", parked_until__gt=now)
    for pk in held_back.values_list("pk", flat=True):
        starts.pop(pk, None)
    rows = Route.objects.in_bulk(list(starts))
    return {
        f"{row} (parked on {row.parked_on!r} until {row.parked_until})": starts[pk]
        for pk, row in rows.items()
    }
