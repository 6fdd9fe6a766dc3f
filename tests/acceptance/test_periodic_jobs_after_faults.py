"""Periodic work after its process was killed holding a lock, after days without workers, and after
the database was away."""

from __future__ import annotations

import sys
import time

import pytest

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet, probes
from tests.acceptance.test_beat import TASK_RESULTS

pytestmark = pytest.mark.slow_proof

HOLD_EVERY_LOCK = """
import django, time
django.setup()
from queuemgr.base.scheduler_lock import hold_scheduler_lock
with hold_scheduler_lock():
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_process_killed_while_holding_every_lock_leaves_none_held(fleet: Fleet) -> None:
    """The fleet's lock and the right to wait for it die with their holder."""
    fleet.environment["DJANGO_SETTINGS_MODULE"] = "project.settings"
    fleet.start_worker(4)
    fleet.enqueue(60, seconds=0.2, trace=fleet.trace_file)
    fleet.wait_until("under way", lambda: fleet.states()["done"] >= 4)
    holder = fleet.start("holder", sys.executable, "-c", HOLD_EVERY_LOCK)
    fleet.wait_until("held", lambda: "held" in holder.output)
    time.sleep(2)
    done = fleet.states()["done"]
    time.sleep(2)
    assert fleet.states()["done"] == done < 60, "the lock held them up"
    holder.kill_group()
    fleet.wait_until_done(60, within=60)
    assert fleet.outcomes() == {"done": 60}
    assert fleet.trace().started_again() == []


def test_periodic_jobs_sent_while_no_worker_ran_are_done_once_and_user_work_starts_at_once(
    fleet: Fleet,
) -> None:
    """Two dozen ticks in the broker, all but the last of them too old."""
    beat = fleet.start_beat()
    with fleet.redis() as redis:
        fleet.wait_until("sent", lambda: redis.llen("housekeeping") >= 24, within=90)
        beat.kill_group()
        fleet.enqueue(20)
        began = time.monotonic()
        workers = fleet.start_housekeeping(), fleet.start_worker(4, wait=False)
        fleet.wait_until_done(20)
        assert time.monotonic() - began < 60
        fleet.wait_for_workers(*workers)
        fleet.wait_until("no flood left", lambda: not redis.llen("housekeeping"))
    worked = [result for (result,) in fleet.database.rows(TASK_RESULTS) if result != "null"]
    assert len(worked) <= 2


def test_a_beat_without_a_schedule_file_sends_what_is_due_at_once(make_fleet: MakeFleet) -> None:
    """A job every ten minutes runs within seconds of a start on another host."""
    fleet = make_fleet(poll_interval=600)
    housekeeping = fleet.start_housekeeping()
    fleet.wait_for_workers(housekeeping)
    fleet.database.run("DELETE FROM queuemgr_chore")
    fleet.start_beat("elsewhere")
    fleet.wait_until("a tick", lambda: fleet.database.rows(TASK_RESULTS), within=45)


def test_beat_and_workers_recover_by_themselves_after_a_database_outage(fleet: Fleet) -> None:
    """Every connection ended and none let in for seconds, then all as it was."""
    fleet.tolerate("")
    beat, housekeeping = fleet.start_beat(), fleet.start_housekeeping()
    worker = fleet.start_worker(4)
    fleet.enqueue(40, seconds=0.2, trace=fleet.trace_file)
    fleet.wait_until("under way", lambda: fleet.states()["done"] >= 4)
    with fleet.database.away():
        time.sleep(8)
    ticks = len(fleet.database.rows(TASK_RESULTS))
    fleet.wait_until("ticks continue", lambda: len(fleet.database.rows(TASK_RESULTS)) > ticks + 2, within=60)
    fleet.command(*probes(5, key_prefix="after"))
    fleet.wait_until_done(45, within=60)
    assert all(process.alive for process in (beat, housekeeping, worker))
    assert fleet.outcomes()["done"] == 45
