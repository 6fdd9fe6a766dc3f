"""Statistics of the queue: counts by flow, phase, state and priority, limits, workers and what is blocked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db.models import Count

from queuemgr.base.budget_day import day_of
from queuemgr.base.meters import REQUESTS
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import all_phases, operator_status
from queuemgr.models import FINAL, LIMIT_FIELDS, Batch, Execution, Lease, Limit, State, Worker, WorkerDrain
from queuemgr.reporting import explain, queue_depths
from queuemgr.reporting.allowances import left_by_provider
from queuemgr.reporting.batch_progress import progress_of
from queuemgr.reporting.forecast import forecast
from queuemgr.reporting.remaining_work import RemainingWork, remaining_work
from queuemgr.scheduling import limit_usage
from queuemgr.scheduling.claims import FLEET, rule_name
from queuemgr.scheduling.decision_input import CLOSED, NO_USE, BreakerState, Snapshot, Usage
from queuemgr.scheduling.limit_rows import pattern_of
from queuemgr.scheduling.snapshot import read_snapshot


@dataclass(frozen=True)
class Counts:
    """Executions by operator's status, and by phase and state."""

    by_status: Counter[str] = field(default_factory=Counter)
    by_phase: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return self.by_status.total()

    @property
    def failed(self) -> int:
        return self.by_status[State.FAILED]

    @property
    def unfinished_by_phase(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for (phase, state), count in self.by_phase.items():
            counts[phase] += count if state not in FINAL else 0
        return counts

    def unfinished(self, phases: Sequence[str] = ()) -> int:
        """Executions not final, of these phases (none: all)."""
        counts = self.unfinished_by_phase
        return sum(counts[phase] for phase in phases) if phases else counts.total()

    def beyond(self, phase: str) -> int:
        """Executions that are done, or in a later phase."""
        order = list(all_phases())
        done = self.by_status[State.DONE] + self.by_status[State.SKIPPED]
        return done + self.unfinished(order[order.index(phase) + 1 :] or ("",))


def counts() -> Counts:
    counted, rows = Counts(), Execution.objects.order_by().values_list("phase", "state")
    for phase, state, count in rows.annotate(n=Count("*")):
        counted.by_status[operator_status(state, phase)] += count
        counted.by_phase[phase, state] += count
    return counted


def stats() -> dict[str, Any]:
    """All statistics as plain data with stable names: `queue stats --json` and the API."""
    now = database_now()
    counted, snapshot = counts(), read_snapshot(now)
    return {
        "at": now,
        "total": counted.total,
        "statuses": dict(counted.by_status),
        "queues": [q for q in queue_depths.queue_counts(now) if q["waiting"] or q["leased"] or q["running"]],
        "limits": limits(snapshot),
        "budget": _budget(snapshot),
        "workers": _workers(now),
        "waiting_on": _waiting_on(),
        "failures": _failures(),
        "batches": _batches(),
        "forecast": forecast(snapshot, counted.unfinished_by_phase),
    }


def _waiting_on(limit: str | None = None) -> list[dict[str, Any]]:
    """The reasons why work waits (on this limit), most waited on first."""
    return [
        {"limit": stopped.limit, "reason": stopped.text, "waiting": stopped.waiting, "until": stopped.until}
        for stopped in explain.what_stops_work()
        if limit in (None, stopped.limit)
    ]


def _failures() -> list[dict[str, Any]]:
    """Failed executions by kind of error, most first."""
    kinds = Execution.objects.failed().exclude(error_kind="").values("error_kind")
    return [dict(row) for row in kinds.annotate(count=Count("*")).order_by("-count", "error_kind")]


BATCHES = 20
"""How many of the newest batches are checked for unfinished ones."""


def _batches() -> list[dict[str, Any]]:
    """The unfinished ones of the newest batches, with their progress."""
    newest = list(Batch.objects.all()[:BATCHES])
    progress = progress_of(newest)
    unfinished = [b for b in newest if b.closed_at is None or progress[b.pk].unfinished]
    return [{"batch": b.name, **progress[b.pk].as_data()} for b in unfinished]


def limits(snapshot: Snapshot | None = None) -> list[dict[str, Any]]:
    """Every limit with a row, and every key in use or with a breaker that is open or half-open."""
    snapshot = snapshot or read_snapshot(database_now())
    rows = {limit.name: limit for limit in Limit.objects.all()}
    remaining = remaining_work(snapshot.rules, snapshot.now)
    stopped = (name for name, state in snapshot.breaker_states.items() if _holds_back(state, snapshot))
    names = sorted({*rows, *snapshot.use, *stopped, *snapshot.provider})
    return [_limit(name, snapshot, rows, remaining) for name in names]


def limit(name: str) -> dict[str, Any] | None:
    """One limit with all its fields, the name of the rule that applies to it, and what waits on it; None when
    there is no such limit: neither a row, nor usage, nor a pattern that matches."""
    snapshot, row = read_snapshot(database_now()), Limit.objects.filter(name=name).first()
    pattern = "" if row else pattern_of(name)
    if row is None and not pattern and name not in snapshot.use and name not in snapshot.breaker_states:
        return None
    if name not in snapshot.use:
        snapshot = with_spent([name], snapshot)
    rows = {each.name: each for each in Limit.objects.filter(name__in=(name, pattern))}
    return {
        **_limit(name, snapshot, rows, remaining_work({name: snapshot.rule(name)}, snapshot.now)),
        **_values(name, snapshot, rows, OF_ONE),
        "defined_by": pattern or name,
        "waiting_on_it": _waiting_on(name),
    }


def with_spent(names: Collection[str], snapshot: Snapshot) -> Snapshot:
    """With what was spent under keys that nothing is leased or waits under: a snapshot omits them."""
    use = defaultdict(Usage, snapshot.use)
    limit_usage.add_allowances(use, snapshot.rules, names, snapshot.now)
    return replace(snapshot, use=use)


def _holds_back(state: BreakerState, snapshot: Snapshot) -> bool:
    return state.is_open(snapshot.now) or state.is_half_open(snapshot.now)


def _values(
    name: str, snapshot: Snapshot, rows: Mapping[str, Limit], fields: Iterable[str]
) -> dict[str, Any]:
    """Those of the row whose rule applies; of none the defaults."""
    row = rows.get(rule_name(name, snapshot.rules) or "") or Limit()
    return {field: getattr(row, field) for field in fields}


LISTED = tuple(name for name, field in LIMIT_FIELDS.items() if field.is_listed)
OF_ONE = tuple(name for name in LIMIT_FIELDS if name not in LISTED)


def _limit(
    name: str, snapshot: Snapshot, rows: Mapping[str, Limit], remaining: RemainingWork
) -> dict[str, Any]:
    rule, use = snapshot.rule(name), snapshot.use.get(name, NO_USE)
    of_budget = use.budget()
    state = snapshot.breaker_states.get(name, CLOSED)
    is_open = state.is_open(snapshot.now)
    return {
        "limit": name,
        "running": use.running,
        **_values(name, snapshot, rows, LISTED),
        "spent": of_budget.spent,
        "reserved": of_budget.reserved,
        "resets_at": rule.day_at(snapshot.now).ends if rule.budget else None,
        "paused": rule.paused,
        "paused_until": rule.paused_until,
        "open_until": state.open_until if is_open else None,
        "open_reason": state.open_reason if _holds_back(state, snapshot) else "",
        "half_open_starts": 0 if is_open else state.half_open_starts,
        "allowances": [status.in_words(snapshot.now) for status in remaining.statuses(name, rule, use)],
        "provider": [
            left_by_provider(meter, left, snapshot.now)
            for meter, left in sorted(snapshot.provider.get(name, {}).items())
        ],
    }


def _budget(snapshot: Snapshot) -> dict[str, Any]:
    """The fleet's budget on the day of its time zone, and what each phase spent of it."""
    rule, use = snapshot.rule(FLEET), snapshot.use.get(FLEET, NO_USE)
    day, zone = rule.day_at(snapshot.now), rule.day_of(REQUESTS).zone or rule.budget_zone
    phases = {f"phase:{phase}": phase for phase in all_phases()}
    spent = limit_usage.requests_today(snapshot.rules, [FLEET, *phases], snapshot.now)
    return {
        "day": day_of(day.starts, zone).isoformat(),
        "zone": zone,
        "budget": rule.budget.amount if rule.budget else None,
        "spent": spent.get(FLEET, 0),
        "reserved": use.budget().reserved,
        "by_phase": {phase: spent[name] for name, phase in phases.items() if name in spent},
    }


def _workers(now: datetime) -> list[dict[str, Any]]:
    drains = {drain.name: drain.sentence for drain in WorkerDrain.objects.all()}
    held = Lease.objects.order_by().values_list("worker_id", "is_async").annotate(held=Count("pk"))
    busy = {(worker, is_async): count for worker, is_async, count in held}
    return [
        {
            "worker": worker.name,
            "slots": worker.slots,
            "busy": busy.get((worker.pk, False), 0),
            "async_slots": worker.async_slots,
            "async_busy": busy.get((worker.pk, True), 0),
            "queues": worker.queues,
            "draining": worker.draining_at is not None,
            "drained": drains.get(worker.name, ""),
            "seen": worker.seen_at,
        }
        for worker in Worker.objects.live(now)
    ]
