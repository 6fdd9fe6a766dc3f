"""Time limits of steps: soft and hard, in every pool, and Celery's own, which never hit a step."""

from __future__ import annotations

import pytest

from queuemgr.worker.background_thread import STEP_STUCK
from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet
from tests.acceptance.processes import Process

ODD = ["-I", "tests.acceptance.misbehaving_steps"]


def errors(fleet: Fleet, like: str) -> set[tuple[str, str]]:
    """The outcomes of these attempts, with their kinds of error."""
    return set(
        fleet.database.rows(
            "SELECT a.outcome, a.error_kind FROM queuemgr_attempt a "
            "JOIN queuemgr_execution e ON e.id = a.execution_id WHERE e.key LIKE %s",
            like,
        )
    )


def start(fleet: Fleet, slots: int, pool: str) -> Process:
    return fleet.start_worker(slots, pool, options=ODD)


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_step_past_its_soft_limit_is_aborted_and_recorded_as_a_timeout(
    make_fleet: MakeFleet, pool: str
) -> None:
    fleet = make_fleet(soft_time_limit_prep=1)
    worker = start(fleet, 2, pool)
    fleet.enqueue(1, key_prefix="long", seconds=30)
    fleet.wait_until("timed out", lambda: errors(fleet, "long-%") == {("retried", "timeout")}, within=20)
    fleet.enqueue(4, key_prefix="good")
    fleet.wait_until_done(4, "good-%")
    assert worker.alive


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_a_process_with_a_step_that_ignores_its_time_limit_ends_for_its_supervisor(
    make_fleet: MakeFleet, pool: str
) -> None:
    """Its attempt ends at once; the steps beside it finish first."""
    fleet = make_fleet(time_limit_prep=2, shutdown_grace=5)
    fleet.tolerate("")
    worker = start(fleet, 1 if pool == "solo" else 3, pool)
    fleet.enqueue(1, key_prefix="hangs", fail="hang-deaf")
    fleet.wait_until("it hangs", lambda: fleet.states("hangs-%") == {"running": 1})
    if pool == "threads":
        fleet.enqueue(1, key_prefix="beside", seconds=3, phase="wrap")
    fleet.wait_until("timed out", lambda: errors(fleet, "hangs-%") == {("retried", "timeout")}, within=20)
    assert worker.wait(30) == STEP_STUCK
    if pool == "threads":
        assert errors(fleet, "beside-%") == {("done", "")}
    fleet.start_worker(2, pool, name="next", options=ODD)
    fleet.enqueue(2, key_prefix="good")
    fleet.wait_until_done(2, "good-%")


@pytest.mark.parametrize(
    "way",
    [*(pytest.param(way, marks=pytest.mark.slow_proof) for way in ("hang-sleep", "hang-deaf")), "hang-loop"],
)
def test_a_child_with_a_step_that_ignores_its_time_limit_is_killed_and_replaced(
    make_fleet: MakeFleet, way: str
) -> None:
    fleet = make_fleet(time_limit_prep=2)
    fleet.tolerate("")
    worker = start(fleet, 2, "prefork")
    fleet.enqueue(1, key_prefix="hangs", fail=way)
    fleet.wait_until("timed out", lambda: errors(fleet, "hangs-%") == {("retried", "timeout")}, within=20)
    fleet.enqueue(6, key_prefix="good")
    fleet.wait_until_done(6, "good-%")
    assert worker.alive


def test_time_limits_of_celery_never_hit_a_step(make_fleet: MakeFleet) -> None:
    """One message carries a slot through many steps, for longer than any of them."""
    fleet = make_fleet()
    fleet.start_worker(1, "prefork", options=["--time-limit", "2", "--soft-time-limit", "1"])
    fleet.enqueue(5, key_prefix="steps", seconds=0.8)
    fleet.wait_until_done(5, "steps-%")
    assert errors(fleet, "%") == {("done", "")}
