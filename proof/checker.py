"""The rules of the proof: pure functions of what was recorded during a run; none imports the code it
checks.

Every rule is sound: it counts only what is certain, so that what it reports is a violation. Where clocks,
locks or messages leave doubt, the tolerance is a constant beside the rule. A rule is a function from a
`History` to violations; to add one, add it to `RULES`.
"""

from __future__ import annotations

from proof.records import History
from proof.rules import (
    allowances,
    caps,
    endings,
    existence,
    fan_in,
    order,
    orders,
    rates,
    rewinds,
    schedules,
    spending,
    standstill,
    uniqueness,
)
from proof.rules.violation import Rule, Violation

RULES: tuple[Rule, ...] = (
    existence.never_lost,
    existence.never_finished_twice,
    existence.begun_once,
    existence.one_lease_at_a_time,
    caps.caps_in_leases,
    caps.caps_in_runs,
    caps.caps_in_requests,
    caps.reserve_is_for_high,
    spending.budget_is_kept,
    spending.usage_adds_up,
    allowances.allowances_are_kept,
    allowances.periods_add_up,
    allowances.refunds_are_exact,
    order.high_goes_first,
    spending.every_request_has_an_attempt,
    rates.rates_are_kept,
    rates.rates_are_used,
    standstill.work_continues,
    standstill.lost_work_waits_again,
    standstill.commands_are_accepted,
    endings.hostile_code_ends_as_it_should,
    endings.nothing_else_suffers,
    endings.lost_for_a_reason,
    endings.callbacks_continue,
    orders.cancelled_by_order,
    orders.retried_by_order,
    schedules.each_due_time_has_one_run,
    schedules.each_run_has_one_execution,
    schedules.left_out_for_a_reason,
    uniqueness.one_at_a_time,
    uniqueness.no_call_comes_to_nothing,
    fan_in.each_batch_completes,
    fan_in.callbacks_fire_once,
)


def check(history: History) -> list[Violation]:
    """All violations of all rules."""
    judged = rewinds.without_what_was_taken_back(history)
    return [violation for rule in RULES for violation in rule(judged)]
