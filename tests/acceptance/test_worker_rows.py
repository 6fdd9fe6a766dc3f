"""A live worker stays in the fleet whatever happens to its row, to the clock, or beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import STEP_QUEUES, Fleet
from tests.acceptance.processes import Process
from tests.fork_server import REPOSITORY

STEPPED_CLOCK = Path(__file__).parent / "stepped_clock"
DAY = 86_400
PRUNE = "import django; django.setup(); from queuemgr.worker import housekeeping; housekeeping.prune()"


def worker_row(fleet: Fleet, name: str) -> int:
    found = fleet.one("SELECT MAX(id) FROM queuemgr_worker WHERE name LIKE %s", f"{name}@%")
    return int(found)


@pytest.mark.parametrize("pool", [pytest.param("threads", marks=pytest.mark.slow_proof), "prefork"])
def test_a_worker_whose_row_was_deleted_works_on_after_its_next_heartbeat(fleet: Fleet, pool: str) -> None:
    worker = fleet.start_worker(2, pool)
    fleet.enqueue(2, key_prefix="before")
    fleet.wait_until_done(2)
    row = worker_row(fleet, "worker")
    fleet.database.run("DELETE FROM queuemgr_workerstatement")
    fleet.database.run("DELETE FROM queuemgr_worker")
    fleet.wait_until("registered again", lambda: "registered again" in worker.output, within=15)
    fleet.enqueue(8, key_prefix="after")
    fleet.wait_until_done(10, within=30)
    assert worker_row(fleet, "worker") == row
    assert worker.output.count("registered again") == 1


@pytest.mark.slow_proof
@pytest.mark.only_on("sqlite", why="with PostgreSQL the server's clock is the fleet's")
def test_a_fleet_works_on_after_its_clock_was_set_two_days_on_and_back(fleet: Fleet) -> None:
    """As after a machine has slept, with the rows of its workers pruned before the first heartbeat."""
    shift = fleet.directory / "shift"
    shift.write_text("0")
    fleet.environment |= {
        "STEPPED_CLOCK": str(shift), "DJANGO_SETTINGS_MODULE": "project.settings",
        "PYTHONPATH": f"{STEPPED_CLOCK}:{REPOSITORY}",
    }  # fmt: skip
    worker = fleet.start_from_scratch(
        "worker", sys.executable, "-m", "celery", "-A", "project", "worker", "-P", "threads", "-c", "2",
        "-Q", STEP_QUEUES, "-n", "worker@%h", "-l", "INFO", "--without-mingle",
    )  # fmt: skip
    fleet.wait_for_workers(worker)
    shift.write_text(str(2 * DAY))
    fleet.start_from_scratch("prune", sys.executable, "-c", PRUNE).wait(60)
    for shifted, key in ((2 * DAY, "later"), (0, "back")):
        shift.write_text(str(shifted))
        fleet.enqueue(4, key_prefix=key)
        fleet.wait_until_done(4, f"{key}%", within=30)


def start_container(fleet: Fleet, program: str) -> Process:
    """A worker called twin in a PID namespace of its own, as in a container: its pid there is 1."""
    return fleet.start(
        program, sys.executable, "-W", "ignore", "-m", "tests.acceptance.in_container", "-A", "project",
        "worker", "-P", "threads", "-c", "2", "-Q", STEP_QUEUES, "-n", "twin@%h", "-l", "INFO",
        "--without-mingle",
    )  # fmt: skip


def may_unshare() -> bool:
    try:
        tried = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True)
    except FileNotFoundError:
        return False
    return tried.returncode == 0


in_namespaces = pytest.mark.skipif(not may_unshare(), reason="may not make PID namespaces")


@in_namespaces
def test_a_container_that_was_killed_and_started_again_works_and_leaves_its_old_lease_to_expire(
    make_fleet: MakeFleet,
) -> None:
    """Both are pid 1 of a host of the same name; the first cannot be looked at from the second."""
    fleet = make_fleet(lease_seconds=7, heartbeat_seconds=1)
    first = start_container(fleet, "first")
    fleet.wait_for_workers(first)
    fleet.enqueue(1, key_prefix="held", seconds=1)
    fleet.wait_until("running", lambda: fleet.states()["running"] == 1)
    first.kill_group()
    # Another container takes the number of the namespace that the first one freed.
    fleet.start("another", "unshare", "--pid", "--fork", "sleep", "60")
    second = start_container(fleet, "second")
    fleet.wait_for_workers(second)
    assert "another worker called twin@" in second.output
    assert fleet.outcomes() == {}, "what it held was not taken from it"
    fleet.enqueue(4, key_prefix="new")
    fleet.wait_until_done(5, within=30)
    assert fleet.outcomes() == {"lost": 1, "done": 5}


@in_namespaces
def test_a_container_started_again_in_the_namespace_of_the_killed_one_frees_its_leases_at_once(
    make_fleet: MakeFleet,
) -> None:
    """The kernel gives numbers of namespaces again; what was in the earlier one is dead for certain."""
    fleet = make_fleet(lease_seconds=300)
    first = start_container(fleet, "first")
    fleet.wait_for_workers(first)
    fleet.enqueue(1, seconds=1)
    fleet.wait_until("running", lambda: fleet.states()["running"] == 1)
    [inside] = psutil.Process(first.pid).children()
    number = Path(f"/proc/{inside.pid}/ns/pid").stat().st_ino
    inside.kill()
    first.wait(30)
    here = Path("/proc/self/ns/pid").stat().st_ino
    # Play the reuse of the number and the pid: a container of the same number would be here.
    fleet.database.run(
        "UPDATE queuemgr_worker SET pid_namespace = %s, pid = %s WHERE pid_namespace = %s",
        here, os.getpid(), number,
    )  # fmt: skip
    second = fleet.start_worker(2, name="twin")
    fleet.wait_until_done(1)
    assert "died holding 1 leases" in second.output
    assert fleet.outcomes() == {"lost": 1, "done": 1}


@in_namespaces
@pytest.mark.parametrize(
    "beside", ["another container", pytest.param("the same machine", marks=pytest.mark.slow_proof)]
)
def test_a_second_living_worker_of_one_name_is_refused_and_takes_nothing_from_the_first(
    make_fleet: MakeFleet, beside: str
) -> None:
    """Whatever pids they have: the first is pid 1 of its own container."""
    fleet = make_fleet(lease_seconds=60)
    first = start_container(fleet, "first")
    fleet.wait_for_workers(first)
    fleet.enqueue(1, seconds=5)
    fleet.wait_until("running", lambda: fleet.states()["running"] == 1)
    if beside == "another container":
        second = start_container(fleet, "second")
    else:
        second = fleet.start_worker(2, name="twin", wait=False)
    assert second.wait(30) == 3
    assert "is alive (pid 1 on" in second.output
    assert "ready." not in second.output
    fleet.wait_until_done(1)
    assert fleet.outcomes() == {"done": 1}


def test_a_second_worker_of_one_name_on_the_same_machine_is_refused_at_once(fleet: Fleet) -> None:
    first = fleet.start_worker(1, name="twin")
    began = time.monotonic()
    second = fleet.start("second", *_command(first))
    assert second.wait(30) == 3
    assert f"is alive (pid {first.pid} on" in second.output
    assert time.monotonic() - began < 20
    fleet.enqueue(1)
    fleet.wait_until_done(1)


def _command(worker: Process) -> list[str]:
    return [
        sys.executable, "-W", "ignore", "-m", "celery", "-A", "project", "worker", "-P", "threads", "-c", "1",
        "-Q", STEP_QUEUES, "-n", f"{worker.name}@%h", "-l", "INFO", "--without-mingle",
    ]  # fmt: skip
