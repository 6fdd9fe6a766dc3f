"""Workers of the periodic jobs while the database is away: they say so in a line and continue after it."""

from __future__ import annotations

import time

import pytest

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.test_beat import TASK_RESULTS


@pytest.mark.slow_proof
@pytest.mark.parametrize("seconds", [15, 45])
def test_a_solo_worker_of_periodic_jobs_survives_the_database_being_away(
    make_fleet: MakeFleet, seconds: float
) -> None:
    """The pool of such a worker is its main loop: whatever is raised there ends the process."""
    fleet = make_fleet()
    housekeeping = fleet.start_housekeeping()
    fleet.start_beat()
    fleet.tolerate("beat", "Traceback")
    fleet.wait_until("a tick", lambda: fleet.database.rows(TASK_RESULTS))
    with fleet.database.away():
        fleet.wait_until(
            "noticed", lambda: "tick" in housekeeping.output or not housekeeping.alive, within=90
        )
        time.sleep(seconds)
        assert housekeeping.alive, housekeeping.output[-3000:]
    ticks = len(fleet.database.rows(TASK_RESULTS))
    fleet.wait_until("ticks continue", lambda: len(fleet.database.rows(TASK_RESULTS)) > ticks, within=60)
    assert housekeeping.alive


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_steps_that_end_during_an_outage_longer_than_their_lease_are_stored_and_not_run_again(
    make_fleet: MakeFleet, pool: str
) -> None:
    """Nobody ends their leases before their worker, which lives, had a heartbeat to store what it did."""
    fleet = make_fleet(lease_seconds=4, heartbeat_seconds=1, poll_interval=0.5)
    fleet.tolerate("")
    fleet.start_worker(4, pool)
    fleet.enqueue(4, key_prefix="ends", seconds=2.5, trace=fleet.trace_file)
    fleet.wait_until("they run", lambda: fleet.states() == {"running": 4})
    with fleet.database.away():
        time.sleep(7)
    fleet.wait_until_done(4, "ends-%", within=30)
    assert fleet.outcomes() == {"done": 4}
    assert fleet.trace().started_again() == []
