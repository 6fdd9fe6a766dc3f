"""Work that kills its worker is stopped after three attempts, and takes nothing with it."""

from __future__ import annotations

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet


def test_work_that_kills_its_process_three_times_is_poison_and_the_rest_finishes(
    make_fleet: MakeFleet,
) -> None:
    """Prefork: exactly three attempts, a final state that says why, all else done."""
    fleet = make_fleet(lease_seconds=2)
    fleet.tolerate("SIGKILL", "Traceback")
    fleet.start_worker(4, "prefork")
    _enqueue(fleet, good="prep")
    fleet.wait_until("all ended", lambda: fleet.states().keys() <= {"done", "failed"})
    _check(fleet)


def test_work_that_kills_its_worker_three_times_is_poison_and_the_rest_finishes(fleet: Fleet) -> None:
    """Threads: its worker dies with it and is restarted; the rest runs elsewhere."""
    fleet.start_worker(4, queues="wrap.normal", name="elsewhere", wait=False)
    _enqueue(fleet, good="wrap")
    _restart_until_all_ended(fleet)
    _check(fleet)


def test_work_that_shares_a_process_with_poison_is_not_poison(fleet: Fleet) -> None:
    """Threads: 30 good probes share the worker of the deadly one."""
    _enqueue(fleet, good="prep")
    _restart_until_all_ended(fleet)
    _check(fleet, most_lost=10)


def _restart_until_all_ended(fleet: Fleet) -> None:
    kept_up = fleet.supervise(lambda: fleet.start_worker(4, queues="prep.normal", wait=False))
    fleet.wait_until(
        "all ended", lambda: kept_up() and fleet.states().keys() <= {"done", "failed"}, within=100
    )


def _enqueue(fleet: Fleet, good: str) -> None:
    fleet.enqueue(1, key_prefix="deadly", die=True, seconds=0.2)
    fleet.enqueue(30, key_prefix="good", seconds=0.3, phase=good)


def _check(fleet: Fleet, most_lost: int = 3) -> None:
    assert fleet.states("deadly-%") == {"failed": 1}
    assert fleet.states("good-%") == {"done": 30}
    outcomes = fleet.outcomes("deadly-%")
    assert outcomes.keys() == {"lost"}
    assert 3 <= outcomes["lost"] <= most_lost
    assert fleet.outcomes("good-%")["done"] == 30
    facts = fleet.database.rows(
        "SELECT error_kind, error_message FROM queuemgr_execution WHERE key = 'deadly-0'"
    )
    assert facts[0][0] == "poison"
    assert f"worker was lost {outcomes['lost']} times" in facts[0][1]
