"""What the judge of the proof allows: for order, for processes that froze, and for rates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proof.checker import check
from proof.records import Fault, History, Rate
from proof.rules.rates import too_early
from tests.unit.proof.made_up_histories import NOON, attempt, execution, limit, of


def rules(history: History) -> set[str]:
    return {violation.rule for violation in check(history)}


HIGH = attempt("high", 20, 21, priority="high")
LOW = attempt("low", 10, 11, priority="low")
CREATED = [execution("high", created=0), execution("low", created=5)]


def of_frozen(first_ends: float, *faults: Fault) -> History:
    second = attempt("b", 5, 30)
    return of(attempt("a", 0, first_ends), second, edits=[limit("fleet", 1)], faults=faults)


def test_a_lease_granted_by_a_process_that_froze_counts_from_when_it_resumed() -> None:
    frozen = Fault("freeze workers", "alpha", NOON + 5.5, NOON + 17)
    assert rules(of_frozen(10)) == {"cap, in leases"}
    assert rules(of_frozen(10, frozen)) == set()
    assert rules(of_frozen(20, frozen)) == {"cap, in leases"}


def test_order_is_not_checked_for_work_that_other_limits_may_block() -> None:
    dearer, elsewhere = replace(HIGH, cost=1), replace(HIGH, limits=("host:a",))
    older_low = [CREATED[0], execution("low", created=-5)]
    assert rules(of(dearer, LOW, executions=CREATED)) == set()
    assert rules(of(elsewhere, LOW, executions=CREATED)) == set()
    assert rules(of(HIGH, LOW, executions=older_low)) == set()


def test_order_has_a_longer_tolerance_while_messages_are_lost() -> None:
    flushed = Fault("flush broker", "broker", NOON + 1, NOON + 1)
    late = replace(LOW, leased=NOON + 80, started=NOON + 80, ended=NOON + 81)
    later = replace(HIGH, leased=NOON + 90, started=NOON + 90, ended=NOON + 91)
    assert rules(of(HIGH, LOW, executions=CREATED, faults=[flushed])) == set()
    assert rules(of(later, late, executions=CREATED, faults=[flushed])) == {"order"}


def test_starts_at_exactly_their_rate_conform_and_a_burst_is_allowed_once() -> None:
    rate = Rate("host:a", 8, 1, burst=3)
    assert too_early([0, 0, 0, 0.125, 0.25, 0.375], rate, 0) == []
    assert too_early([0, 0, 0, 0.125, 0.25, 0.3125], rate, 0) == [pytest.approx(0.0625)]
    assert too_early([0, 0, 0, 0.125, 0.25, 0.3125], rate, 0.07) == []
    assert too_early([0, 0, 0, 5, 5, 5], rate, 0) == []


def test_a_start_that_came_too_early_does_not_shorten_the_wait_of_later_ones() -> None:
    early = too_early([0, 0.5, 1.0, 3.0], Rate("host:a", 1, 1), 0)
    assert early == [pytest.approx(0.5), pytest.approx(1.0)]
