"""Usage, budget and breaker of each limit, under a bounded set of labels: keys of a pattern are summed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime

from queuemgr.base.config import queue_settings
from queuemgr.base.meters import meter_or_plain
from queuemgr.flows.flow import all_phases
from queuemgr.reporting.remaining_work import RemainingWork, remaining_work
from queuemgr.scheduling.claims import BATCH
from queuemgr.scheduling.decision_input import LimitRule, Snapshot, Usage
from queuemgr.scheduling.limit_rules import read_rules
from queuemgr.scheduling.snapshot import read_limits
from queuemgr.web.metrics.definitions import Sample

SUMMED = (
    "running", "running_high", "paused", "breaker_open", "breaker_half_open", "keys_in_use",
    "keys_full",
)  # fmt: skip

LIMITS = 50
"""Maximum number of limits with their own label value; the others are summed by kind."""


def own_labels(limits: Collection[str], phases: Iterable[str]) -> frozenset[str]:
    """The limits with their own label value: fleet, phases, resources, and rows that match no pattern.

    Not the rows of single hosts, tenants or batches: their number is unbounded.
    """
    first = ["fleet", *(f"phase:{phase}" for phase in phases)]
    kinds = {name.partition(":")[0] for name in limits if name.endswith("*")} | {BATCH.removesuffix(":")}
    others = sorted(
        (":" in name, name)
        for name in limits
        if name not in first and not name.endswith("*") and name.partition(":")[0] not in kinds
    )
    known = [name for name in first if name in limits]
    return frozenset([*known, *(name for _, name in others)][:LIMITS])


def label_of(limit: str, own: Collection[str]) -> str:
    """Its own label value, or its kind such as `host:*`; `other` for names without a kind."""
    if limit in own:
        return limit
    kind, colon, _ = limit.partition(":")
    return f"{kind}:*" if colon else "other"


def samples(now: datetime) -> Iterator[Sample]:
    rules = read_rules(now)
    own = own_labels(rules, all_phases())
    remaining = remaining_work(rules, now)
    snapshot = read_limits(now, {*own, *(limit for limit, _ in remaining.needs)})
    yield from _sums(snapshot, own)
    yield from _ending(snapshot, own, remaining)
    for name in sorted(own):
        use = snapshot.use.get(name, Usage())
        yield from _fields(name, rules[name], use)
        yield from _allowances(name, rules[name], use, remaining)
        for meter, left in sorted(snapshot.provider.get(name, {}).items()):
            amount = max(0, left.amount) / meter_or_plain(meter).scale
            yield Sample("sluicegate_limit_provider_left", (name, meter), amount)


def _sums(snapshot: Snapshot, own: frozenset[str]) -> Iterator[Sample]:
    sums: dict[str, Counter[str]] = {name: Counter() for name in own}
    for name, values in _each(snapshot):
        sums.setdefault(label_of(name, own), Counter()).update(values)
    for label, values in sorted(sums.items()):
        for name in SUMMED:
            if name.startswith("keys_") and label in own:
                continue
            yield Sample(f"sluicegate_limit_{name}", (label,), values[name])


def _each(snapshot: Snapshot) -> Iterator[tuple[str, Mapping[str, int]]]:
    for name, use in snapshot.use.items():
        values = {"running": use.running, "running_high": use.running - use.below_high}
        is_full = use.leases > 0 and 0 < snapshot.rule(name).max_running <= use.running
        yield name, {**values, "keys_in_use": int(use.leases > 0), "keys_full": int(is_full)}
    for name, state in snapshot.breaker_states.items():
        is_open, is_half_open = state.is_open(snapshot.now), state.is_half_open(snapshot.now)
        yield name, {"breaker_open": int(is_open), "breaker_half_open": int(is_half_open)}
    for name, rule in snapshot.rules.items():
        if rule.paused or name.endswith("*"):
            yield name, {"paused": int(bool(rule.paused))}


def _fields(name: str, rule: LimitRule, use: Usage) -> Iterator[Sample]:
    if rule.max_running:
        yield Sample("sluicegate_limit_max_running", (name,), rule.max_running)
        yield Sample("sluicegate_limit_reserved_high", (name,), rule.reserved_high)
    if rule.budget:
        yield Sample("sluicegate_limit_budget_requests", (name,), rule.budget.amount)
        yield Sample("sluicegate_limit_budget_spent_requests", (name,), use.budget().spent)
        yield Sample("sluicegate_limit_budget_reserved_requests", (name,), use.budget().reserved)


def _ending(snapshot: Snapshot, own: frozenset[str], remaining: RemainingWork) -> Iterator[Sample]:
    """How many allowances a person should know of; of a pattern, those of its keys."""
    ending, percent = Counter(dict.fromkeys(own, 0)), queue_settings().allowance_alarm_percent
    for name, found in remaining.by_limit(snapshot):
        ending[label_of(name, own)] += sum(status.runs_out_soon(percent) for status in found)
    for label, number in sorted(ending.items()):
        yield Sample("sluicegate_limit_allowances_ending", (label,), number)


def _allowances(name: str, rule: LimitRule, use: Usage, remaining: RemainingWork) -> Iterator[Sample]:
    """In the units of meters, as dollars, not in their smallest parts."""
    for status in remaining.statuses(name, rule, use):
        scale = meter_or_plain(status.allowance.meter).scale
        labels = (name, status.allowance.name)
        yield Sample("sluicegate_limit_allowance_amount", labels, status.most / scale)
        yield Sample("sluicegate_limit_allowance_used", labels, status.used / scale)
        yield Sample("sluicegate_limit_allowance_reserved", labels, status.reserved / scale)
        waiting = status.forecast.waiting if status.forecast else 0
        yield Sample("sluicegate_limit_allowance_waiting", labels, waiting / scale)
