"""Connections to the broker: cut, idle, frozen or refused, and never more of them with time."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from redis import Redis

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet, probes

pytestmark = pytest.mark.slow_proof

CONSUMES_AGAIN = 60
"""Seconds after the fault within which work must continue."""

MOST_PER_WORKER = 12
"""Connections a worker with threads may hold; about ten, says docs/operate.md."""


def cut_five_times(fleet: Fleet, redis: Redis) -> None:
    """Everyone else's connection cut, five times within three seconds."""
    for _ in range(5):
        for kind in ("normal", "pubsub"):
            redis.client_kill_filter(_type=kind, skipme=True)
        time.sleep(0.5)


def close_the_idle(fleet: Fleet, redis: Redis) -> None:
    """The server closes whoever is silent for a second, as firewalls do."""
    fleet.wait_until("idle", lambda: fleet.states().keys() == {"done"})
    redis.config_set("timeout", 1)
    time.sleep(5)


def freeze(fleet: Fleet, redis: Redis) -> None:
    """No answer to anyone for a minute and a half, and no connection closed."""
    fleet.redis_process.freeze()
    time.sleep(90)
    fleet.redis_process.thaw()


@pytest.mark.parametrize("fault", [cut_five_times, close_the_idle, freeze])
def test_work_continues_by_itself_after_its_broker_connections_were_lost(
    make_fleet: MakeFleet, fault: Callable[[Fleet, Redis], None]
) -> None:
    """50 items queued when it happens, 20 after; each done once, and no worker deaf."""
    fleet = make_fleet(lease_seconds=4, slot_handover_seconds=0)
    fleet.tolerate("")
    kept_up = fleet.supervise(lambda: fleet.start_worker(2))
    fleet.enqueue(50, key_prefix="before", seconds=0.1, trace=fleet.trace_file)
    fleet.wait_until("under way", lambda: fleet.states()["done"] >= 2)
    with fleet.redis() as redis:
        fault(fleet, redis)
    fleet.enqueue(20, key_prefix="after", seconds=0.1, trace=fleet.trace_file)
    fleet.wait_until("all done", lambda: kept_up() and fleet.states()["done"] == 70, CONSUMES_AGAIN)
    trace = fleet.trace()
    assert (len(trace.runs), trace.started_again()) == (70, [])
    assert fleet.outcomes() == {"done": 70}


def test_connections_to_the_broker_do_not_grow_with_the_work_done(make_fleet: MakeFleet) -> None:
    """Every step by a message of its own, four workers, and a command that enqueues."""
    fleet = make_fleet(slot_handover_seconds=0)
    workers = [fleet.start_worker(2, name=f"w{n}", wait=False) for n in range(4)]
    fleet.wait_for_workers(*workers)
    with fleet.redis() as redis:
        fleet.enqueue(200, key_prefix="first")
        early = _most_connections(fleet, redis, "first-%", 200)
        fleet.enqueue(2_000, key_prefix="then")
        late = _most_connections(fleet, redis, "then-%", 2_000)
    assert late <= early + 2
    assert late <= MOST_PER_WORKER * len(workers)


def _most_connections(fleet: Fleet, redis: Redis, like: str, count: int) -> int:
    """The most connections seen until so many are done."""
    most = 0

    def done() -> bool:
        nonlocal most
        most = max(most, len(redis.client_list()))
        return fleet.states(like)["done"] == count

    fleet.wait_until(f"{count} done", done, within=90)
    return most


def test_a_broker_that_refuses_connections_delays_work_and_nothing_hangs(make_fleet: MakeFleet) -> None:
    """Fewer clients allowed than needed; the enqueue says so, and all is done after."""
    fleet = make_fleet(lease_seconds=4, slot_handover_seconds=0)
    fleet.tolerate("")
    kept_up = fleet.supervise(lambda: fleet.start_worker(4))
    fleet.enqueue(20, seconds=0.05)
    fleet.wait_until_done(20)
    with fleet.redis() as redis:
        redis.ping()
        redis.config_set("maxclients", 1)
        began = time.monotonic()
        running = fleet.start_command(*probes(20, key_prefix="refused"))
        running.end()
        assert "broker does not answer" in running.errors
        assert time.monotonic() - began < 60
        redis.config_set("maxclients", 1_000)
    fleet.wait_until("all done", lambda: kept_up() and fleet.states()["done"] == 40, 60)
    assert fleet.outcomes() == {"done": 40}
