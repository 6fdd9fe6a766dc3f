"""Steps that end their process, hold it up, never return or raise errors that cannot be pickled."""

from __future__ import annotations

import psutil
import pytest

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet
from tests.acceptance.misbehaving_steps import WAYS
from tests.acceptance.processes import Process

pytestmark = pytest.mark.slow_proof
ODD = ["-I", "tests.acceptance.misbehaving_steps"]


def start_worker(fleet: Fleet, slots: int, pool: str = "prefork", *more: str) -> Process:
    return fleet.start_worker(slots, pool, options=[*ODD, *more])


def children(worker: Process) -> set[int]:
    return {child.pid for child in psutil.Process(worker.pid).children()}


def test_errors_that_cannot_be_unpickled_end_no_process_and_leave_nothing_running(fleet: Fleet) -> None:
    """Prefork, where an error object that crossed over took the parent down."""
    fleet.tolerate("")
    worker = start_worker(fleet, 2)
    before = children(worker)
    unpicklable = [way for way in WAYS if way.startswith("odd-")]
    for way in unpicklable:
        fleet.enqueue(1, key_prefix=way, fail=way)
    fleet.enqueue(10, key_prefix="good", seconds=0.05)
    fleet.wait_until_done(10, "good-%")
    fleet.wait_until("all recorded", lambda: fleet.outcomes("odd-%") == {"retried": len(unpicklable)})
    assert fleet.states("odd-%") == {"waiting": len(unpicklable)}
    messages = fleet.database.rows("SELECT error_message FROM queuemgr_execution WHERE key LIKE %s", "odd-%")
    assert all(0 < len(message) <= 2000 for (message,) in messages)
    assert worker.alive
    assert children(worker) == before


@pytest.mark.parametrize("way", ["once-kill", "once-exit"])
def test_an_item_whose_child_process_was_killed_is_done_by_another(make_fleet: MakeFleet, way: str) -> None:
    """Two attempts, one final result, and well within a minute."""
    fleet = make_fleet(lease_seconds=4)
    fleet.tolerate("")
    worker = start_worker(fleet, 2)
    fleet.enqueue(1, key_prefix="hit", fail=way, trace=fleet.trace_file, requests=1)
    fleet.wait_until_done(1, within=90)
    assert [attempt["outcome"] for attempt in fleet.attempts()] == ["lost", "done"]
    assert len({run.worker for run in fleet.trace().runs}) == 2
    assert worker.alive


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_step_longer_than_its_lease_runs_once(make_fleet: MakeFleet, pool: str) -> None:
    """Asleep, in a Python loop, and in C calls that let no other thread run for a while."""
    fleet = make_fleet(lease_seconds=8)
    start_worker(fleet, 3, pool)
    options = {"trace": fleet.trace_file}
    fleet.enqueue(1, key_prefix="sleeps", seconds=20, **options)
    fleet.enqueue(1, key_prefix="loops", cpu_ms=16_000, **options)
    fleet.enqueue(1, key_prefix="holds", fail="hold", **options)
    fleet.wait_until_done(3, within=120)
    assert fleet.outcomes() == {"done": 3}
    assert fleet.trace().started_again() == []
