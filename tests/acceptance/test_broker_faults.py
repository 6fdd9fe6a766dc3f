"""The broker holds hints only: flushed, frozen or killed, it costs time and nothing else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import pytest

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import STEP_QUEUES, Fleet, probes

BOUND = 20
"""Seconds an enqueue may take longer while the broker does not answer than while it does."""

RECOVERY = 60
"""Seconds within which work resumes by itself once the broker is back."""


def test_flushall_in_mid_run_loses_nothing_and_nothing_runs_twice(make_fleet: MakeFleet) -> None:
    """Every start goes by message (no hand-over), and the broker forgets all, twice."""
    fleet = make_fleet(lease_seconds=4, slot_handover_seconds=0)
    fleet.start_worker(8)
    fleet.enqueue(150, seconds=0.1, trace=fleet.trace_file)
    with fleet.redis() as redis:
        fleet.wait_until("30 done", lambda: fleet.states()["done"] >= 30)
        redis.flushall()
        fleet.wait_until("90 done", lambda: fleet.states()["done"] >= 90)
        redis.flushall()
    fleet.wait_until_done(150)
    _check_each_ran_once(fleet, 150)


def test_a_frozen_broker_does_not_hang_an_enqueue_and_work_continues_afterwards(
    make_fleet: MakeFleet,
) -> None:
    """What was stored while nothing could be published is picked up by itself."""
    fleet = make_fleet(lease_seconds=4, slot_handover_seconds=0)
    fleet.tolerate("")
    kept_up = fleet.supervise(lambda: fleet.start_worker(8))
    usual = _seconds_to_enqueue(fleet, 10, seconds=0.1)
    fleet.wait_until_done(10)
    fleet.redis_process.freeze()
    assert _seconds_to_enqueue(fleet, 20, seconds=0.1) < usual + BOUND
    fleet.redis_process.thaw()
    _wait_until_done(fleet, 30, kept_up)
    _check_each_ran_once(fleet, 30)


def test_a_killed_broker_does_not_hang_an_enqueue_and_work_continues_afterwards(
    make_fleet: MakeFleet,
) -> None:
    """Killed with messages in it, back empty on the same port."""
    fleet = make_fleet(lease_seconds=4, slot_handover_seconds=0)
    fleet.tolerate("")
    kept_up = fleet.supervise(lambda: fleet.start_worker(8))
    usual = _seconds_to_enqueue(fleet, 60, seconds=0.2)
    fleet.redis_process.kill_group()
    assert _seconds_to_enqueue(fleet, 20, seconds=0.1) < usual + BOUND
    fleet.start_redis()
    _wait_until_done(fleet, 80, kept_up)
    _check_each_ran_once(fleet, 80)


def _wait_until_done(fleet: Fleet, count: int, kept_up: Callable[[], bool]) -> None:
    """With the worker started again when it ends: kombu 5.7 ends one, rarely, whose broker went away
    in the middle of an acknowledgement ("Unrecoverable error"), and a supervisor is there for that."""
    fleet.wait_until(f"{count} done", lambda: kept_up() and fleet.states()["done"] == count, RECOVERY)


def _seconds_to_enqueue(fleet: Fleet, count: int, *, seconds: float) -> float:
    """The command as a whole, its start included: on a busy machine that is most of it."""
    began = time.monotonic()
    output = fleet.command(*probes(count, seconds=seconds, trace=fleet.trace_file))
    assert output.startswith(f"{count} new")
    return time.monotonic() - began


def _check_each_ran_once(fleet: Fleet, count: int) -> None:
    assert fleet.outcomes() == {"done": count}
    trace = fleet.trace()
    assert (len(trace.runs), trace.started_again(), trace.unended()) == (count, [], [])


@pytest.mark.parametrize("how", ["a connection error", "restoring messages"])
def test_a_worker_reconnects_when_kombu_trips_over_a_channel_without_a_connection(
    fleet: Fleet, how: str
) -> None:
    """celery/kombu#582: Celery takes that AttributeError for a bug, and ends the worker."""
    fleet.tolerate("Traceback", "celery.bootsteps")
    sign = fleet.directory / "break-now"
    fleet.environment |= {"BREAK_NOW": str(sign), "BREAK_BY": how}
    worker = fleet.start(
        "worker", sys.executable, "-W", "ignore", "-m", "tests.acceptance.broken_broker_cleanup", "-A",
        "project", "worker", "-P", "threads", "-c", "2", "-Q", STEP_QUEUES, "-n", "worker@%h", "-l", "INFO",
    )  # fmt: skip
    fleet.wait_for_workers(worker)
    fleet.enqueue(2, key_prefix="under-way", seconds=3)
    fleet.wait_until("running", lambda: fleet.states()["running"] == 2)
    sign.touch()
    fleet.wait_until("broken", lambda: not sign.exists(), within=20)
    fleet.enqueue(4, key_prefix="after")
    fleet.wait_until_done(6, within=30)
    assert worker.alive
    assert fleet.outcomes() == {"done": 6}
