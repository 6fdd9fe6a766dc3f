"""A stopping worker leaves nothing half done: unstarted work is returned, long steps resume elsewhere."""

from __future__ import annotations

import signal

import pytest

from tests.acceptance.conftest import MakeFleet

GRACE = 2


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_stopping_worker_returns_unstarted_work_and_interrupts_long_steps_for_another_worker(
    make_fleet: MakeFleet, pool: str
) -> None:
    """At SIGTERM two short steps, two long ones, and three messages nobody has begun."""
    fleet = make_fleet(lease_seconds=60, heartbeat_seconds=20, shutdown_grace=GRACE)
    leaving = fleet.start_worker(4, pool, name="leaving")
    fleet.enlist_nobody("prep.low", slots=3)
    fleet.enqueue(2, key_prefix="short", seconds=1.5)
    fleet.enqueue(2, key_prefix="long", seconds=60)
    fleet.wait_until("all slots busy", lambda: fleet.states()["running"] == 4)
    fleet.enqueue(3, key_prefix="unstarted", priority="low")
    assert fleet.states("unstarted-%") == {"leased": 3}
    fleet.dismiss_nobody()

    leaving.signal(signal.SIGTERM)
    back = {"waiting": 3}
    fleet.wait_until("given back", lambda: fleet.states("unstarted-%") == back, within=10)
    assert leaving.wait(GRACE + 30) == 0
    assert fleet.outcomes("short-%") == {"done": 2}
    assert fleet.outcomes("long-%") == {"interrupted": 2}
    assert fleet.outcomes("unstarted-%") == {}, "given back without an attempt"

    fleet.start_worker(5, pool, name="elsewhere")
    fleet.wait_until_done(3, "unstarted-%")
    fleet.wait_until("long steps resumed", lambda: fleet.states("long-%") == {"running": 2})
    kinds = fleet.database.rows("SELECT DISTINCT error_kind FROM queuemgr_execution")
    assert kinds == [("",)], "an interruption is no failure"
