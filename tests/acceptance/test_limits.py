"""Limits hold with real workers racing each other: caps, the reserve for high, the daily budget."""

from __future__ import annotations

import time

import pytest

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet
from tests.acceptance.trace import Trace


@pytest.mark.slow_proof
def test_a_cap_of_10_under_50_slots_never_shows_11_and_stays_full_while_work_waits(fleet: Fleet) -> None:
    """300 probes of 0.1 s; waiting for a slot is no failure and no attempt."""
    fleet.enqueue(300, seconds=0.1, trace=fleet.trace_file)
    fleet.enqueue(20, seconds=0.1, trace=fleet.trace_file, phase="wrap")
    output = fleet.command("run", "--drain", "--workers", "50", "--max-prep", "10")
    assert "prep 300" in output
    assert "wrap 20" in output
    assert fleet.outcomes() == {"done": 320}
    trace, prep = fleet.trace(), fleet.trace().where(phase="prep")
    assert (prep.most_at_once(), prep.passed(10)) == (10, [])
    assert prep.share_of_time_at(10) > 0, "never full while work waited"
    assert (trace.unended(), trace.started_again()) == ([], [])


def test_the_table_of_reserved_capacity_holds_line_by_line(make_fleet: MakeFleet) -> None:
    """Max 3, reserved 1."""
    fleet = make_fleet(max_workers=3, high_priority_reserved=1)
    fleet.start_worker(6)

    all_low = _run(fleet, "all-low", low=5)
    assert (all_low.most_at_once(), all_low.passed(2)) == (2, [])
    all_high = _run(fleet, "all-high", high=5)
    assert (all_high.most_at_once(), all_high.passed(3)) == (3, [])
    mixed = _run(fleet, "mixed", low=6, high=4)
    assert (mixed.most_at_once(), mixed.passed(3)) == (3, [])
    assert (mixed.where(priority="low").most_at_once(), mixed.where(priority="low").passed(2)) == (2, [])


def _run(fleet: Fleet, name: str, **counts: int) -> Trace:
    """Run so many probes of each priority to their end."""
    fleet.trace_file.unlink(missing_ok=True)
    for priority, count in counts.items():
        options = {"key_prefix": f"{name}-{priority}", "priority": priority}
        fleet.enqueue(count, seconds=0.4, trace=fleet.trace_file, **options)
    fleet.wait_until_done(sum(counts.values()), f"{name}-%")
    return fleet.trace()


@pytest.mark.slow_proof
def test_a_run_with_a_budget_of_20_and_40_slots_stops_at_20(fleet: Fleet) -> None:
    """Exactly 20 spent and done; the rest waits unfailed and says why."""
    fleet.enqueue(60, requests=1, seconds=0.05, trace=fleet.trace_file)
    output = fleet.command("run", "--drain", "--workers", "40", "--budget", "20", code=4)
    assert "stopped: 40 wait: fleet requests 20 of 20 per day spent" in output
    _check_spent(fleet, 20, done=20, waiting=40)


def test_a_budget_of_20_stops_at_18_when_each_costs_3(make_fleet: MakeFleet) -> None:
    """The last value that fits, under 40 racing slots."""
    fleet = make_fleet(daily_budget=20)
    fleet.start_worker(40, wait=False)
    fleet.enqueue(40, requests=3, seconds=0.05, trace=fleet.trace_file)
    fleet.wait_until_done(6)
    time.sleep(1)
    _check_spent(fleet, 18, done=6, waiting=34)


def _check_spent(fleet: Fleet, spent: int, *, done: int, waiting: int) -> None:
    assert fleet.one("SELECT SUM(spent) FROM queuemgr_allowanceusage WHERE limit_name = 'fleet'") == spent
    assert fleet.states() == {"done": done, "waiting": waiting}
    assert fleet.outcomes() == {"done": done}
    assert len(fleet.trace().runs) == done
    key = fleet.one("SELECT key FROM queuemgr_execution WHERE state = 'waiting' LIMIT 1")
    assert f"fleet requests {spent} of 20 per day spent" in fleet.queue("why", key)


def test_a_cap_lowered_while_busy_drains_and_starts_nothing_above_it(fleet: Fleet) -> None:
    """12 run, the cap becomes 4; starts wait until fewer than 4 run, other phases continue."""
    fleet.start_worker(12, wait=False)
    fleet.enqueue(12, key_prefix="capped", seconds=3, trace=fleet.trace_file)
    # A lease is granted before its step writes its line: wait for the lines.
    fleet.wait_until("all slots busy", lambda: fleet.under_way() == 12)
    fleet.database.run("UPDATE queuemgr_limit SET max_running = 4 WHERE name = 'phase:prep'")
    lowered = time.monotonic_ns()
    fleet.enqueue(12, key_prefix="capped-later", seconds=0.2, trace=fleet.trace_file)
    fleet.enqueue(4, key_prefix="free", phase="wrap")
    fleet.wait_until_done(28)
    trace = fleet.trace()
    assert [run for run in trace.where(phase="prep").passed(4) if run.start > lowered] == []
    assert fleet.outcomes("capped-%") == {"done": 24}
