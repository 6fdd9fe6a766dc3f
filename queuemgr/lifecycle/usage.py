"""Charges what leases used when they end, in the transaction that ends them.

Requests are counted per day for every limit; of calendar allowances the period is charged in which the lease
was granted, against which it was reserved; of rolling ones the difference to what was booked when it began.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date

from queuemgr.base.budget_day import day_of
from queuemgr.base.meters import Amounts, amounts_of
from queuemgr.lifecycle.outcome_rules import OutcomeEffects
from queuemgr.scheduling import limit_usage, rate_clocks
from queuemgr.scheduling.claims import names_of
from queuemgr.scheduling.decision_input import LimitRule, rule_for
from queuemgr.scheduling.limit_rules import rules_of
from queuemgr.scheduling.limit_usage import PeriodCharge


def charge(effects: Iterable[OutcomeEffects]) -> None:
    """Charge these endings to every limit they passed."""
    paid = [e for e in effects if e.attempt.cost or e.attempt.uses]
    rate_clocks.settle([each for e in effects if e.lease.rate_debits for each in _settlements(e)])
    if not paid:
        return
    names = {name for e in paid for name in names_of(e.lease.phase, e.lease.limit_keys)}
    rules = rules_of(names, paid[0].lease.leased_at)
    requests: Counter[tuple[date, str]] = Counter()
    periods: Counter[PeriodCharge] = Counter()
    for e in paid:
        for name in names_of(e.lease.phase, e.lease.limit_keys):
            rule = rule_for(rules, name)
            if e.attempt.cost:
                requests[day_of(e.lease.leased_at, rule.budget_zone), name] += e.attempt.cost
            periods.update(_periods(e, name, rule))
    for (day, name), number in sorted(requests.items()):
        limit_usage.charge(day, name, number)
    limit_usage.charge_periods(periods)


def _periods(ended: OutcomeEffects, limit: str, rule: LimitRule) -> Mapping[PeriodCharge, int]:
    """What is charged to the calendar allowances of one limit."""
    used, at = _used(ended), ended.lease.leased_at
    return {
        PeriodCharge(limit, allowance.name, allowance.period_at(at, rule.budget_zone).starts): amount
        for allowance in rule.allowances
        if not allowance.rolling and (amount := used.get(allowance.meter, 0))
    }


def _used(ended: OutcomeEffects) -> Amounts:
    return amounts_of(ended.attempt.cost, ended.attempt.uses)


def _reserved(ended: OutcomeEffects) -> Amounts:
    return amounts_of(ended.lease.cost, ended.lease.uses)


def _settlements(ended: OutcomeEffects) -> Iterator[tuple[str, float]]:
    """By how many seconds the clocks of its rolling allowances are set forward."""
    used, reserved = _used(ended), _reserved(ended)
    for clock, seconds in json.loads(ended.lease.rate_debits).items():
        if not rate_clocks.is_of_allowance(clock):
            continue
        meter = clock.partition(" ")[2].partition("/")[0]
        booked = reserved.get(meter, 0)
        if booked and (difference := used.get(meter, 0) - booked):
            yield clock, seconds * difference / booked


def is_refunded(ended: OutcomeEffects) -> bool:
    """Whether it used less of anything than was reserved for it."""
    used = _used(ended)
    return any(used.get(meter, 0) < amount for meter, amount in _reserved(ended).items())
