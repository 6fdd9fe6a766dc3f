"""A person drains a worker and resumes it: nothing is aborted, nothing new starts, no restart is needed."""

from __future__ import annotations

import signal

import pytest

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet


def workers_of(fleet: Fleet, like: str) -> set[str]:
    """The workers that ran attempts, or run leases, of executions whose key is like this."""
    rows = fleet.database.rows(
        "SELECT a.worker FROM queuemgr_attempt a JOIN queuemgr_execution e ON e.id = a.execution_id "
        "WHERE e.key LIKE %s UNION SELECT w.name FROM queuemgr_worker w JOIN queuemgr_lease l "
        "ON l.worker_id = w.id JOIN queuemgr_execution e ON e.id = l.execution_id WHERE e.key LIKE %s",
        like, like,
    )  # fmt: skip
    return {name.partition("@")[0] for (name,) in rows}


@pytest.mark.parametrize("pool", [pytest.param("threads", marks=pytest.mark.slow_proof), "prefork"])
def test_a_drained_worker_finishes_what_it_runs_and_takes_nothing_new_until_it_is_resumed(
    make_fleet: MakeFleet, pool: str
) -> None:
    """The step runs on beyond the grace of a shutdown; a new one of every kind goes elsewhere."""
    fleet = make_fleet(shutdown_grace=1)
    drained = fleet.start_worker(2, pool, name="drained")
    fleet.enqueue(1, key_prefix="long", seconds=5)
    fleet.wait_until("running", lambda: fleet.states("long%")["running"] == 1)
    fleet.enqueue(40, key_prefix="short", seconds=0.2)  # each slot hands the next one on to itself
    fleet.wait_until("under way", lambda: fleet.states("short%")["done"] >= 2)
    fleet.queue("worker", "drain", "drained", "--reason", "new disk")
    fleet.wait_until("drained", lambda: "takes no new work" in drained.output, within=10)
    fleet.wait_until("emptied", lambda: fleet.states("short%")["running"] == 0, within=10)
    left = fleet.states("short%")["waiting"]
    assert left > 0

    fleet.enqueue(4, key_prefix="new")
    fleet.wait_until("the long step is done", lambda: fleet.states("long%") == {"done": 1}, within=20)
    assert (fleet.states("short%")["waiting"], fleet.states("new%")) == (left, {"waiting": 4})
    assert drained.alive

    other = fleet.start_worker(2, pool, name="other")
    fleet.wait_until_done(4, "new%", within=30)
    fleet.wait_until_done(40, "short%", within=30)
    assert workers_of(fleet, "new%") == {"other"}

    fleet.queue("worker", "drain", "other")
    fleet.queue("worker", "resume", "drained")
    processes = 3 if pool == "prefork" else 1  # each polls for itself
    fleet.wait_until("drained", lambda: other.output.count("takes no new work") == processes, within=10)
    fleet.enqueue(4, key_prefix="again")
    fleet.wait_until_done(4, "again%", within=20)
    assert workers_of(fleet, "again%") == {"drained"}
    assert fleet.outcomes() == {"done": 49}


def test_a_drain_survives_a_restart_of_the_worker_and_of_its_connection_to_the_broker(fleet: Fleet) -> None:
    fleet.tolerate("onnection", "Traceback")
    first = fleet.start_worker(2, name="steps")
    fleet.queue("worker", "drain", "steps", "--reason", "disk")
    fleet.wait_until("drained", lambda: "takes no new work" in first.output, within=10)
    first.signal(signal.SIGTERM)
    first.wait(30)
    second = fleet.start_worker(2, name="steps again", options=["-n", "steps@%h"])
    assert "takes no new work" in second.output, "said as it starts"
    fleet.enqueue(3)
    fleet.redis_process.kill_group()
    fleet.start_redis()
    fleet.wait_until("reconnected", lambda: second.output.count("Connected to redis") > 1, within=30)
    assert fleet.states() == {"waiting": 3}
    fleet.queue("worker", "resume", "steps")
    fleet.wait_until_done(3, within=30)
