"""The benches' arithmetic: a wrong ratio would be believed."""

from __future__ import annotations

import pytest

from bench.dispatch import BASE_ROWS, MODES, found_of, settings_of
from bench.limits import kinds_of_limit
from bench.measures import Aim, Spread, ratios, rows_of, spread, typical
from bench.recovery import Recovery
from bench.recovery import found_of as recovered


def test_a_spread_is_a_median_and_its_extremes() -> None:
    assert spread([3, 1, 2]) == Spread(2, 1, 3)
    assert str(spread([1, 1.5])) == "1.25 (1.00 - 1.50)"


def test_ratios_are_taken_round_by_round_so_a_slow_round_slows_both_sides() -> None:
    assert ratios([2, 20, 4], [1, 10, 2]) == Spread(2, 2, 2)


def test_ratios_of_rounds_that_do_not_match_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        ratios([1, 2], [1])


def test_the_99th_percentile_is_never_beyond_the_slowest_sample() -> None:
    found = typical([1.0] * 98 + [5.0, 9.0])
    assert (found.median, found.samples) == (1.0, 100)
    assert 5.0 <= found.p99 <= 9.0
    assert typical([7.0]).p99 == 7.0


def test_an_aim_says_whether_it_is_met_from_its_own_side() -> None:
    assert Aim(1.5).verdict(1.5) == "aim <= 1.5: met"
    assert Aim(1.5).verdict(1.6) == "aim <= 1.5: not met"
    assert Aim(0.9, at_least=True).verdict(0.95) == "aim >= 0.9: met"
    assert Aim(0.9, at_least=True).verdict(0.85) == "aim >= 0.9: not met"


def test_a_row_holds_a_rate_against_the_first_and_judges_only_what_has_an_aim() -> None:
    first, second = rows_of({"none": [100, 200], "cap": [90, 160]}, "none", {"cap": Aim(0.9, at_least=True)})
    assert (first.ratio, first.verdict) == (Spread(1, 1, 1), "")
    assert second.ratio.median == pytest.approx(0.85)
    assert second.cells() == ["cap", "125/s", "0.85 (0.80 - 0.90)", "aim >= 0.9: not met"]


def test_every_setting_of_the_dispatch_bench_has_as_many_leases() -> None:
    settings = settings_of([1_000_000, 100_000], keys=2000)
    assert {setting.leases for setting in settings} == {2000}
    assert [s.rows for s in settings] == [BASE_ROWS, BASE_ROWS, 100_000, 1_000_000, 1_000_000]
    assert [s.waiting_full for s in settings] == [0, 0, 0, 0, 1990]
    assert [s.held_full for s in settings] == [0, 1990, 0, 0, 1990]


def test_the_base_is_the_smallest_size_when_that_is_below_the_usual() -> None:
    assert [s.rows for s in settings_of([500, 200], keys=20)] == [200, 200, 500, 500]


def test_a_dispatch_setting_is_held_against_the_base_by_the_medians_of_each_round() -> None:
    base = [_round(1.0, 2.0), _round(2.0, 4.0)]
    mine = [_round(1.5, 2.0), _round(3.0, 8.0)]
    setting = settings_of([500], keys=20)[-1]
    found = found_of(setting, {"load_seconds": 1, "first_ms": 9}, mine, base)
    assert found.ratio == {"finish": Spread(1.5, 1.5, 1.5), "dispatch": Spread(1.5, 1, 2)}
    assert {mode: found.times[mode].samples for mode in MODES} == {"finish": 6, "dispatch": 6}
    assert found.after_tick_ms == 5.0


def _round(finish: float, dispatch: float) -> dict[str, list[float]]:
    return {"finish": [finish] * 3, "dispatch": [dispatch] * 3, "after_tick": [5.0]}


@pytest.mark.parametrize("keys", [10, 50, 1000])
def test_the_keys_that_are_not_full_have_room_for_every_slot(keys: int) -> None:
    for case in kinds_of_limit(slots=8, keys=keys):
        assert case.saturated == 0 or case.keys - case.saturated >= 2 * 8


def test_a_binding_fleet_limit_leaves_as_many_at_once_as_there_are_slots_without_it() -> None:
    binding = next(c for c in kinds_of_limit(slots=8, keys=10) if "fleet limit" in c.name)
    assert binding.limits["fleet"]["max_running"] == binding.idle_slots == 8


def test_recoveries_are_reported_as_median_and_maximum() -> None:
    found = recovered("killed", [Recovery(1, 4), Recovery(3, 9), Recovery(2, 5)])
    assert found.rounds == 3
    assert found.cells() == ["killed", "2.00 s, 3.00 s", "5.00 s, 9.00 s"]
