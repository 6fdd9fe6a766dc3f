"""Asynchronous steps run on one event loop of a worker, beside its slots; all that holds of steps holds."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from queuemgr.worker.background_thread import STEP_STUCK
from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet
from tests.acceptance.processes import Process

FLOW, HURRIED, PLAIN = "asynchronous", "hurried", "synchronous"
SERVES = ["-I", "tests.acceptance.async_application"]
QUEUES = "prep.high,prep.normal,prep.low"


def start(fleet: Fleet, slots: int = 2, pool: str = "threads", name: str = "worker") -> Process:
    return fleet.start_worker(slots, pool, QUEUES, name=name, options=SERVES)


def enqueue(
    fleet: Fleet, count: int, way: str, *, seconds: float = 0, flow: str = FLOW, prefix: str = ""
) -> None:
    words = (flow, prefix or way, str(count), way, str(seconds))
    fleet.start_program("enqueue", "-m", "tests.acceptance.async_application", *words).end(0, 60)


def noted(fleet: Fleet) -> list[dict[str, Any]]:
    """What steps wrote to the file of all."""
    path = fleet.directory / "noted"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def ends(fleet: Fleet, like: str) -> list[tuple[str, str]]:
    """The outcomes of attempts, with their kinds of error."""
    return fleet.database.rows(
        "SELECT a.outcome, a.error_kind FROM queuemgr_attempt a "
        "JOIN queuemgr_execution e ON e.id = a.execution_id WHERE e.key LIKE %s ORDER BY a.id",
        like,
    )


def results(fleet: Fleet, like: str) -> list[Any]:
    rows = fleet.database.rows("SELECT result FROM queuemgr_execution WHERE key LIKE %s", like)
    return [json.loads(result) if isinstance(result, str) else result for (result,) in rows]


@pytest.fixture(scope="module")
def busy(make_shared_fleet: MakeFleet) -> Fleet:
    """A fleet of one worker with two threads, which long steps hold, and 300 async slots."""
    fleet = make_shared_fleet(async_slots=300, max_workers=400, lease_seconds=4)
    fleet.tolerate("a step failed unexpectedly", "a task of an asynchronous step", "never retrieved")
    start(fleet)
    enqueue(fleet, 2, "sleep", seconds=600, flow=PLAIN, prefix="plain")
    fleet.wait_until("threads busy", lambda: fleet.states("plain-%") == {"running": 2})
    return fleet


def test_three_hundred_coroutines_run_at_once_beside_busy_threads_and_are_cancelled(busy: Fleet) -> None:
    enqueue(busy, 300, "sleep", seconds=600)
    busy.wait_until("all run", lambda: busy.states("sleep-%") == {"running": 300})
    busy.wait_until("all have begun", lambda: max(n.get("at_once", 0) for n in noted(busy)) == 300)
    shown = json.loads(busy.queue("worker", "list", "--json"))
    assert (shown["slots"], shown["busy"], shown["async_slots"], shown["async_busy"]) == (2, 2, 300, 300)
    busy.queue("cancel", *(f"sleep-{number}" for number in range(300)), "--flow", FLOW, "--reason", "test")
    busy.wait_until("cancelled", lambda: busy.states("sleep-%") == {"cancelled": 300})
    assert busy.states("plain-%") == {"running": 2}


def test_whatever_a_coroutine_raises_is_its_own_failure(busy: Fleet) -> None:
    ways = ("exit", "exit-task", "interrupt", "cancelled", "cancel-itself", "odd")
    enqueue(busy, 1, ",".join([*ways, "fail"]))
    for way in ways:
        busy.wait_until(way, lambda way=way: ends(busy, f"{way}-%")[:1] == [("retried", "unexpected")])
    busy.wait_until("failed", lambda: ends(busy, "fail-%")[:1] == [("retried", "told_to")])


def test_each_step_has_a_context_and_connections_of_its_own(busy: Fleet) -> None:
    enqueue(busy, 40, "context")
    enqueue(busy, 20, "orm")
    busy.wait_until_done(40, "context-%")
    busy.wait_until_done(20, "orm-%")
    assert results(busy, "context-%") == [{"kept": True}] * 40
    assert results(busy, "orm-%") == [{"own": True, "refused": True}] * 20


def test_queued_coroutines_have_a_request_of_their_own_and_results(busy: Fleet) -> None:
    enqueue(busy, 20, "calls", flow="calls")
    busy.wait_until_done(20, "add-%")
    busy.wait_until_done(20, "bound-%")
    assert sorted(results(busy, "add-%")) == [number + 1 for number in range(20)]
    assert results(busy, "bound-%") == [{"same": True}] * 20


def test_tasks_that_a_step_leaves_behind_are_cancelled(busy: Fleet) -> None:
    enqueue(busy, 1, "tasks")
    busy.wait_until_done(1, "tasks-%")
    assert sum(line["key"] == "tasks-0" for line in noted(busy)) == 3


def test_a_step_is_cancelled_at_its_soft_time_limit(busy: Fleet) -> None:
    enqueue(busy, 1, "sleep", seconds=600, flow=HURRIED, prefix="hurried")
    busy.wait_until("timed out", lambda: ends(busy, "hurried-%")[:1] == [("retried", "timeout")])


def test_a_step_that_blocks_the_loop_longer_than_its_lease_loses_none_and_is_named_in_the_log(
    busy: Fleet,
) -> None:
    enqueue(busy, 1, "block", seconds=5)
    busy.wait_until_done(1, "block-%")
    assert ends(busy, "block-%") == [("done", "")]
    log = busy.processes[1].output
    assert "the event loop has been blocked" in log
    assert "in _block" in log


@pytest.mark.slow_proof
def test_a_stopping_worker_lets_coroutines_end_and_cancels_the_long_ones(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(async_slots=20, lease_seconds=60, heartbeat_seconds=20)
    leaving = start(fleet)
    enqueue(fleet, 5, "sleep", seconds=1, prefix="short")
    enqueue(fleet, 5, "sleep", seconds=600, prefix="long")
    fleet.wait_until("all run", lambda: sum("at_once" in line for line in noted(fleet)) == 10)
    leaving.signal(signal.SIGTERM)
    assert leaving.wait(60) == 0
    assert fleet.outcomes("short-%") == {"done": 5}
    assert fleet.outcomes("long-%") == {"interrupted": 5}
    start(fleet, name="next")
    fleet.wait_until("resumed", lambda: fleet.states("long-%") == {"running": 5})


@pytest.mark.slow_proof
def test_coroutines_of_a_killed_worker_are_run_by_another(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(async_slots=50, lease_seconds=4)
    fleet.tolerate("died holding", "lost")
    killed = start(fleet)
    enqueue(fleet, 50, "sleep", seconds=3)
    fleet.wait_until("all run", lambda: sum("at_once" in line for line in noted(fleet)) == 50)
    killed.signal(signal.SIGKILL)
    start(fleet, name="next")
    fleet.wait_until_done(50, "sleep-%")
    assert fleet.outcomes("sleep-%") == {"lost": 50, "done": 50}


@pytest.mark.slow_proof
def test_a_process_with_a_coroutine_that_no_cancellation_ends_is_left_by_the_others(
    make_fleet: MakeFleet,
) -> None:
    fleet = make_fleet(async_slots=20, shutdown_grace=5)
    fleet.tolerate("")
    worker = start(fleet)
    enqueue(fleet, 1, "swallow", flow=HURRIED)
    enqueue(fleet, 2, "sleep", seconds=9, prefix="beside")
    fleet.wait_until("timed out", lambda: ends(fleet, "swallow-%")[:1] == [("retried", "timeout")])
    assert worker.wait(60) == STEP_STUCK
    assert fleet.outcomes("beside-%").keys() <= {"done", "interrupted"}
    assert any(line.get("swallowed") for line in noted(fleet))


@pytest.mark.slow_proof
def test_a_drained_worker_takes_no_coroutine_until_it_is_resumed(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(async_slots=20)
    start(fleet)
    fleet.queue("worker", "drain", "worker", "--reason", "test")
    enqueue(fleet, 5, "sleep", seconds=0.1)
    fleet.wait_until("waiting", lambda: fleet.states("sleep-%") == {"waiting": 5})
    start(fleet, name="other")
    fleet.wait_until_done(5, "sleep-%")
    fleet.queue("worker", "resume", "worker", "--reason", "test")
    enqueue(fleet, 40, "sleep", seconds=600, prefix="both")
    fleet.wait_until("both take some", lambda: fleet.states("both-%") == {"running": 40})
    assert len({line["pid"] for line in noted(fleet) if line["key"].startswith("both")}) == 2


@pytest.mark.slow_proof
def test_coroutines_survive_a_restart_of_the_broker(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(async_slots=20)
    fleet.tolerate("onnection", "broker")
    start(fleet)
    enqueue(fleet, 20, "sleep", seconds=5)
    fleet.wait_until("all run", lambda: fleet.states("sleep-%") == {"running": 20})
    fleet.redis_process.signal(signal.SIGKILL)
    fleet.redis_process.wait(10)
    fleet.start_redis()
    enqueue(fleet, 30, "sleep", seconds=0.1, prefix="later")
    fleet.wait_until_done(20, "sleep-%")
    fleet.wait_until_done(30, "later-%")
    assert fleet.outcomes("sleep-%") == {"done": 20}


@pytest.mark.slow_proof
@pytest.mark.parametrize("pool", ["solo", "prefork"])
def test_other_pools_run_coroutines_as_documented(make_fleet: MakeFleet, pool: str) -> None:
    """In the loop beside a solo pool; a prefork one refuses to start with async slots, and without them
    its children run each in a loop of its own."""
    fleet = make_fleet(async_slots=20)
    if pool == "prefork":
        refused = fleet.start_worker(2, pool, QUEUES, name="refused", options=SERVES, wait=False)
        assert refused.wait(60) != 0
        assert "pool prefork has no async slots" in refused.output
        fleet.environment["SLUICE_ASYNC_SLOTS"] = "0"
    start(fleet, 2, pool, name="served")
    enqueue(fleet, 4, "context")
    fleet.wait_until_done(4, "context-%")
    assert results(fleet, "context-%") == [{"kept": True}] * 4
