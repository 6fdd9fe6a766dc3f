"""Plain `celery worker` commands: the pools that work, and those refused."""

from __future__ import annotations

import importlib.util
import sys
import time
import types
from collections import Counter

import pytest

from queuemgr.worker.registration import refuse_pool
from tests.acceptance.fleet import Fleet


def test_a_plain_prefork_worker_runs_every_phase_of_its_queues(fleet: Fleet) -> None:
    """`celery -A project worker -P prefork -c 4 -Q …`, nothing else; each child works."""
    queues = "prep.high,prep.normal,prep.low,expensive.normal,wrap.normal"
    fleet.start_from_scratch(
        "plain", sys.executable, "-m", "celery", "-A", "project", "worker",
        "-P", "prefork", "-c", "4", "-Q", queues,
    )  # fmt: skip
    fleet.enqueue(60, seconds=0.05, cpu_ms=5, trace=fleet.trace_file)
    fleet.wait_until_done(60)
    trace = fleet.trace()
    assert len({run.worker for run in trace.runs}) == 4
    assert (trace.passed(4), trace.started_again()) == ([], [])
    assert len({run.worker for run in trace.runs}) == 4, "each child has its share"
    assert fleet.outcomes() == {"done": 60}


def test_a_time_that_every_child_of_a_pool_names_is_one_dispatch(fleet: Fleet) -> None:
    """Not one of each child, of which one decides and the others find the lock busy."""
    fleet.start_worker(6, "prefork", options=["-I", "tests.acceptance.same_times"])
    log = fleet.directory / "dispatches.log"
    fleet.wait_until("the last time has come", lambda: " 7" in (log.read_text() if log.exists() else ""))
    time.sleep(0.3)
    lines = [line.split() for line in log.read_text().splitlines()]
    assert len({pid for pid, what in lines if what == "started"}) == 7  # its parent, too
    at = Counter(int(what) for _, what in lines if what != "started")
    assert {*range(8)} <= at.keys()
    # Two children that wake in the same instant may both dispatch; the parent looks once a second.
    assert sum(at[number] for number in range(8)) <= 20, at


@pytest.mark.parametrize("name", ["gevent", "eventlet"])
def test_pools_that_cannot_keep_leases_are_refused_with_the_reason(name: str) -> None:
    pool = types.new_class("TaskPool")
    pool.__module__ = f"celery.concurrency.{name}"
    with pytest.raises(SystemExit, match=f"pool {name} is not supported: .*use -P threads"):
        refuse_pool(pool)


@pytest.mark.skipif(importlib.util.find_spec("gevent") is None, reason="gevent is not installed")
def test_a_gevent_worker_ends_at_once_and_says_why(fleet: Fleet) -> None:
    worker = fleet.start_worker(4, "gevent", wait=False)
    assert worker.wait(60) != 0
    assert "pool gevent is not supported" in worker.output
