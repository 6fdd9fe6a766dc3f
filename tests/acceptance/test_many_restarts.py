"""Workers stopped again and again, gently and not: each item ends once, and none is missing."""

from __future__ import annotations

import random
import signal
import time

import pytest

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet

pytestmark = pytest.mark.slow_proof
SLOTS = 8


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_warm_shutdowns_at_any_moment_run_nothing_twice_and_lose_nothing(
    make_fleet: MakeFleet, pool: str
) -> None:
    """SIGTERM at random moments of a full queue, each item counted by its own trace."""
    fleet = make_fleet(lease_seconds=60, heartbeat_seconds=20)
    fleet.enqueue(300, seconds=0.2, trace=fleet.trace_file)
    restarts = 0
    while fleet.states()["done"] < 300:
        worker = fleet.start_worker(SLOTS, pool, name=f"life-{restarts}")
        time.sleep(random.uniform(0.1, 1.0))
        assert worker.stop() == 0
        assert fleet.states().keys() <= {"waiting", "done"}, "what it held is back, or done"
        restarts += 1
    assert restarts >= 5
    assert fleet.states() == {"done": 300}
    assert fleet.outcomes() == {"done": 300}
    trace = fleet.trace()
    assert (len(trace.runs), trace.started_again(), trace.unended()) == (300, [], [])


@pytest.mark.parametrize("signals", [[signal.SIGTERM, signal.SIGTERM], [signal.SIGQUIT]])
def test_killed_workers_rerun_no_more_than_what_was_running(
    make_fleet: MakeFleet, signals: list[int]
) -> None:
    """SIGTERM twice, or SIGQUIT; what was under way is lost to its lease, and done again."""
    fleet = make_fleet(lease_seconds=3)
    fleet.tolerate("")
    fleet.enqueue(150, seconds=0.3, trace=fleet.trace_file)
    stops = 4
    for life in range(stops):
        worker = fleet.start_worker(SLOTS, name=f"life-{life}")
        time.sleep(random.uniform(0.2, 0.8))
        for number in signals:
            worker.signal(number)
            time.sleep(0.1)
        worker.wait(60)
    _finish(fleet, 150)
    assert len(fleet.trace().started_again()) <= stops * SLOTS
    assert fleet.outcomes()["done"] == 150


def _finish(fleet: Fleet, count: int) -> None:
    fleet.start_worker(SLOTS, name="last")
    fleet.wait_until_done(count, within=60)
    assert fleet.states() == {"done": count}
