"""Charges what leases used when they end, in the transaction that ends them.

What was used of each meter is counted by day for every limit that a lease passed. Of calendar allowances the
period is charged in which the lease was granted, against which it was reserved; of rolling ones the
difference to what was booked when it began.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from queuemgr.base.bucket_clock import Booked, Settlement
from queuemgr.base.meters import Amounts, amounts_of
from queuemgr.flows.outcomes import Failed
from queuemgr.lifecycle.outcome_rules import OutcomeEffects
from queuemgr.scheduling import allowance_clocks, limit_usage
from queuemgr.scheduling.breakers import THROTTLES
from queuemgr.scheduling.claims import names_of
from queuemgr.scheduling.decision_input import LimitRule, clock_name, rule_for
from queuemgr.scheduling.limit_rules import rules_of
from queuemgr.scheduling.limit_usage import PeriodCharge


def charge(effects: Sequence[OutcomeEffects], now: datetime) -> None:
    """Charge these endings to every limit they passed."""
    paid = [e for e in effects if e.attempt.cost or e.attempt.uses]
    names = {name for e in paid for name in names_of(e.lease.phase, e.lease.limit_keys)}
    rules = rules_of(names, now) if names else {}
    periods: Counter[PeriodCharge] = Counter()
    for e in paid:
        used, at = _used(e), e.lease.leased_at
        for name in names_of(e.lease.phase, e.lease.limit_keys):
            for period, amount in limit_usage.charged(name, rule_for(rules, name), used, at):
                periods[period] += amount
    limit_usage.charge_periods(periods)
    allowance_clocks.settle([each for e in effects for each in _settlements(e, rules, now)])


def _used(ended: OutcomeEffects) -> Amounts:
    return amounts_of(ended.attempt.cost, ended.attempt.uses)


def _reserved(ended: OutcomeEffects) -> Amounts:
    return amounts_of(ended.lease.cost, ended.lease.uses)


def _settlements(
    ended: OutcomeEffects, rules: Mapping[str, LimitRule], now: datetime
) -> Iterator[tuple[str, Settlement]]:
    """What it used of rolling allowances beyond what was booked when it began, or less; and all of it where
    nothing was reserved, or the allowance is new since it began.

    Where the service said that there were too many, it has less left than was thought, so nothing is given
    back: each refusal has the whole fleet wait for what was refused.
    """
    used, reserved, booked, at = _used(ended), _reserved(ended), _booked(ended), now.timestamp()
    for clock, taken in booked.items():
        meter = clock.partition(" ")[2].partition("/")[0]
        amount = reserved.get(meter, 0)
        difference = used.get(meter, 0) - amount
        if amount and difference and not (difference < 0 and _was_throttled(ended)):
            pace = taken.seconds / amount
            yield clock, Settlement(pace * difference, at, taken.number, pace)
    for name in names_of(ended.lease.phase, ended.lease.limit_keys) if used else ():
        for allowance in rule_for(rules, name).allowances:
            clock = clock_name(name, allowance)
            if allowance.rolling and clock not in booked and (amount := used.get(allowance.meter, 0)):
                yield clock, Settlement(amount * allowance.interval, at, pace=allowance.interval)


def _was_throttled(ended: OutcomeEffects) -> bool:
    return isinstance(ended.result, Failed) and ended.result.kind in THROTTLES


def _booked(ended: OutcomeEffects) -> dict[str, Booked]:
    """What it took of the clocks of allowances when it began. What it was to take when it was granted is a
    number alone, and stays where an edit between these has left it nothing to take."""
    taken = json.loads(ended.lease.rate_debits) if ended.lease.rate_debits else {}
    return {clock: Booked(*each) for clock, each in taken.items() if isinstance(each, list)}


def is_refunded(ended: OutcomeEffects) -> bool:
    """Whether it used less of anything than was reserved for it."""
    used = _used(ended)
    return any(used.get(meter, 0) < amount for meter, amount in _reserved(ended).items())
