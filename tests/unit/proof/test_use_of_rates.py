"""The checker of the proof counts how much of a rate was used, where it is certain that it could be."""

from __future__ import annotations

from dataclasses import replace

from proof.checker import check
from proof.records import History
from proof.rules.rates import uses
from tests.unit.proof.made_up_histories import NOON, attempt, execution, under_a_rate


def rules(history: History) -> set[str]:
    return {violation.rule for violation in check(history)}


def test_the_use_of_a_rate_is_its_starts_against_what_it_allows_while_work_waits() -> None:
    assert [(use.starts, round(use.allowed), use.share) for use in uses(under_a_rate(0.2))] == [
        (120, 115, 1.0)
    ]
    assert [round(use.share, 2) for use in uses(under_a_rate(0.25))] == [0.83]
    assert check(under_a_rate(0.205)) == []
    assert rules(under_a_rate(0.215)) == {"rate used"}


def test_a_rate_counts_as_unused_also_while_a_slot_only_waits_for_its_start() -> None:
    """A lease that was granted early must not excuse what others lose by it."""
    late = under_a_rate(0.25, slots=1)
    early = [replace(a, leased=a.started - 0.24) for a in late.attempts]
    assert rules(replace(late, attempts=early)) == {"rate used"}


def test_the_use_of_a_rate_is_not_judged_while_all_slots_run_or_the_machine_is_overloaded() -> None:
    assert check(under_a_rate(0.25, slots=1, runs=0.249)) == []
    assert check(under_a_rate(0.25, overloads=[(NOON, NOON + 8)])) == []
    assert rules(under_a_rate(0.25, overloads=[(NOON, NOON + 2)])) == {"rate used"}
    assert uses(under_a_rate(0.25, overloads=[(NOON, NOON + 20)])) == []


def test_the_time_between_the_last_work_of_the_faults_and_the_calm_stretch_is_no_standstill() -> None:
    calm = under_a_rate(0.2)
    before = attempt("a", -60, -59)
    both = [execution("a", created=-61, finished=-59), *calm.executions]
    assert check(replace(calm, attempts=[before, *calm.attempts], executions=both)) == []


def test_a_rate_that_was_used_though_the_machine_was_overloaded_counts_as_used() -> None:
    assert [use.share for use in uses(under_a_rate(0.2, overloads=[(NOON, NOON + 24)]))] == [1.0]
