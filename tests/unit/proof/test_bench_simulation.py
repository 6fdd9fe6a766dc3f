"""The simulated fleet: the real decision, one lock, and the bounds that docs/scale.md derives from it."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from bench.fleet_simulation import Costs, Simulation, starts_of
from bench.scale_simulation import bounds, costs_of, line

COSTS = Costs(hold=0.002, hold_each=0.0005, end=0.002, end_each=0.0002, begin=0.002, begin_each=0.0002)


def test_what_starts_is_decided_by_the_real_function() -> None:
    assert [starts_of(5, 0), starts_of(5, 2), starts_of(5, 5), starts_of(0, 0)] == [5, 3, 0, 0]


def test_a_fleet_far_from_the_bound_uses_its_slots_and_hands_them_over_without_messages() -> None:
    seen = Simulation(workers=4, slots=10, seconds=2, costs=COSTS).run(20)
    assert 0.95 * 20 < seen.rate <= 20
    assert seen.by_message == 0
    assert seen.held < 0.1


def test_no_fleet_starts_more_than_the_lock_allows_and_larger_decisions_bring_it_nearer() -> None:
    rates = [Simulation(workers, 40, 0.5, COSTS).run(6).rate for workers in (1, 8, 64)]
    assert all(smaller < larger for smaller, larger in pairwise(rates))
    assert bounds(COSTS) == {"hand_over_bound": pytest.approx(400), "bound": pytest.approx(2000)}
    assert 400 < rates[-1] < 1.05 * 2000, "a decision may have begun before what is counted"


def test_while_the_lock_is_always_held_its_time_is_all_spent_on_decisions_and_starts() -> None:
    """So a rate needs `rate * hold / (1 - rate * hold_each)` starts in each decision."""
    seen = Simulation(64, 40, 3, COSTS).run(12)
    assert seen.held == pytest.approx(1, abs=0.02)
    needed = seen.rate * COSTS.hold / (1 - seen.rate * COSTS.hold_each)
    assert seen.starts_a_hold == pytest.approx(needed, rel=0.35)


def test_costs_are_read_from_the_figures_of_the_benchmark_of_finishes() -> None:
    printed = json.dumps({
        f"{n} at once": {"finishes_per_second": n / (0.005 + 0.0003 * n), "lock_hold_ms": 2 + 0.1 * n}
        for n in (1, 8, 50)
    })  # fmt: skip
    costs = costs_of(json.loads(printed))
    assert (costs.hold, costs.hold_each) == (pytest.approx(0.002), pytest.approx(0.0001))
    assert (costs.end, costs.end_each) == (pytest.approx(0.003), pytest.approx(0.0002))


def test_neither_part_of_a_line_is_negative() -> None:
    assert line({1: 0.002, 8: 0.001})[1] == 0
    assert line({1: 0.001, 8: 0.1})[0] == 0
