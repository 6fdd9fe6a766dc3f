"""`kill -9` of whole workers: nothing is lost, nothing is done twice, slots come back by themselves."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet
from tests.acceptance.processes import Process
from tests.acceptance.trace import Trace

LEASE, TICK = 4, 8
"""Seconds: a lease that is not renewed, and the longest pause between two searches for such leases in a
fleet without beat. Heartbeats search every second; the rest is for a machine with other work."""


@pytest.mark.parametrize(
    ("pool", "slots"), [("threads", 8), pytest.param("prefork", 4, marks=pytest.mark.slow_proof)]
)
def test_a_worker_killed_in_mid_run_loses_nothing_and_nothing_is_done_twice(
    make_fleet: MakeFleet, pool: str, slots: int
) -> None:
    """Another worker lives; no beat, so heartbeats stand in."""
    fleet = make_fleet(lease_seconds=LEASE, max_prep=10)
    doomed = fleet.start_worker(slots, pool, name="doomed", wait=False)
    survivor = fleet.start_worker(8, pool, name="survivor", wait=False)
    fleet.wait_for_workers(doomed, survivor)
    fleet.enqueue(200, seconds=0.15, trace=fleet.trace_file)
    _freeze_when_busy(fleet, doomed)
    doomed.kill_group()
    died, died_at = time.monotonic_ns(), datetime.now(UTC)
    fleet.wait_until_done(200)

    attempts = fleet.attempts()
    lost = [attempt for attempt in attempts if attempt["outcome"] == "lost"]
    assert 1 <= len(lost) <= slots
    assert {attempt["worker"].partition("@")[0] for attempt in lost} == {"doomed"}
    late = [datetime.fromisoformat(attempt["ended"]) - died_at for attempt in lost]
    assert max(late).total_seconds() < LEASE + TICK
    _check_all_done_once(fleet, 200)
    _check_trace(fleet.trace().until({"doomed@": died}), cap=10, lost={a["key"] for a in lost})


def test_a_restarted_worker_frees_what_its_killed_namesake_held_without_waiting_for_the_lease(
    make_fleet: MakeFleet,
) -> None:
    """Leases of 300 s, the same node name, and slots back as soon as it signs on."""
    fleet = make_fleet(lease_seconds=300, max_prep=4)
    first = fleet.start_worker(8, name="phoenix")
    fleet.enqueue(60, seconds=0.1, trace=fleet.trace_file)
    _freeze_when_busy(fleet, first, done=20)
    first.kill_group()
    died = time.monotonic_ns()
    fleet.start_worker(8, name="phoenix")
    fleet.wait_until_done(60, within=60)

    _check_all_done_once(fleet, 60)
    lost = {attempt["key"] for attempt in fleet.attempts("--outcome", "lost")}
    assert 1 <= len(lost) <= 4
    _check_trace(fleet.trace().until({"phoenix@": died}), cap=4, lost=lost)


def _freeze_when_busy(fleet: Fleet, worker: Process, done: int = 40) -> None:
    """Freeze it once some are done and it is in the middle of others, which it then cannot finish."""
    fleet.wait_until(f"{done} done", lambda: fleet.states()["done"] >= done)
    worker.freeze()
    while not _leases_of(fleet, worker):
        worker.thaw()
        time.sleep(0.05)
        worker.freeze()


def _leases_of(fleet: Fleet, worker: Process) -> Any:
    return fleet.one(
        "SELECT COUNT(*) FROM queuemgr_lease l JOIN queuemgr_worker w ON w.id = l.worker_id "
        "WHERE w.name LIKE %s", f"{worker.name}@%",
    )  # fmt: skip


def _check_all_done_once(fleet: Fleet, count: int) -> None:
    per_execution = (
        "SELECT COUNT(*) FROM queuemgr_attempt WHERE outcome = 'done' "
        "GROUP BY execution_id HAVING COUNT(*) = 1"
    )
    assert len(fleet.database.rows(per_execution)) == count
    assert fleet.outcomes()["done"] == count
    assert fleet.states() == {"done": count}


def _check_trace(trace: Trace, cap: int, lost: set[str]) -> None:
    assert trace.passed(cap) == []
    assert set(trace.started_again()) <= lost
    assert (trace.overlapping(), trace.unended()) == ([], [])
