"""Someone else holding the database's lock for seconds costs time, never an attempt."""

from __future__ import annotations

import time

from tests.acceptance.fleet import Fleet


def test_work_waits_out_a_lock_held_for_seconds_and_no_attempt_fails(fleet: Fleet) -> None:
    """SQLite's write lock, or on PostgreSQL a lock on the leases, taken in mid-run."""
    fleet.start_worker(8)
    fleet.enqueue(80, seconds=0.1, trace=fleet.trace_file)
    fleet.wait_until("under way", lambda: fleet.states()["done"] >= 8)
    with fleet.database.locked("queuemgr_lease"):
        time.sleep(1)
        done = fleet.states()["done"]
        time.sleep(1)
        assert fleet.states()["done"] == done < 80, "the lock held them up"
    fleet.wait_until_done(80)
    assert fleet.outcomes() == {"done": 80}
    assert fleet.trace().started_again() == []
