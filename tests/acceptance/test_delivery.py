"""Messages may come twice, late or to a worker that slept: what they ask for happens once."""

from __future__ import annotations

import re

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet, probes

QUEUE = "prep.normal"


def test_a_message_delivered_three_times_and_once_more_later_runs_once(make_fleet: MakeFleet) -> None:
    """Every message trebled in the broker, and delivered again after all was done."""
    fleet = make_fleet(lease_seconds=60, heartbeat_seconds=20)
    fleet.enlist_nobody(QUEUE, slots=20)
    fleet.enqueue(20, seconds=0.1, trace=fleet.trace_file)
    with fleet.redis() as redis:
        messages = redis.lrange(QUEUE, 0, -1)
        assert len(messages) == 20
        redis.lpush(QUEUE, *messages, *messages)
        fleet.start_worker(8)
        fleet.wait_until_done(20)
        redis.lpush(QUEUE, *messages)
        fleet.wait_until("all delivered", lambda: not redis.llen(QUEUE) and not redis.hlen("unacked"))
    trace = fleet.trace()
    assert (len(trace.runs), trace.started_again()) == (20, [])
    assert fleet.outcomes() == {"done": 20}


def test_a_worker_frozen_beyond_its_lease_stores_nothing_when_it_wakes(make_fleet: MakeFleet) -> None:
    """Its work is done by another; waking up, it has no second effect."""
    fleet = make_fleet(lease_seconds=3)
    sleeper = fleet.start_worker(1, name="sleeper")
    fleet.enqueue(1, key_prefix="once", seconds=3, requests=1, trace=fleet.trace_file)
    fleet.wait_until("it runs", lambda: fleet.states()["running"] == 1)
    fleet.freeze_at_rest(sleeper)
    waker = fleet.start_worker(1, name="waker")
    fleet.wait_until_done(1)
    as_it_was = _everything(fleet)
    sleeper.thaw()
    fleet.wait_until("the sleeper's step ends", lambda: not fleet.trace().unended())
    waker.stop()
    fleet.enqueue(1, key_prefix="after")
    fleet.wait_until_done(2)

    assert _everything(fleet) == as_it_was
    attempts = [(a["worker"].partition("@")[0], a["outcome"]) for a in fleet.attempts()]
    assert attempts == [("sleeper", "lost"), ("waker", "done"), ("sleeper", "done")], (
        "it works on, once awake"
    )


def _everything(fleet: Fleet) -> list[tuple[object, ...]]:
    """All that is stored of the execution `once-0`, and the requests spent."""
    return [
        *fleet.database.rows(
            "SELECT state, finished_at, error_kind FROM queuemgr_execution WHERE key = 'once-0'"
        ),
        *fleet.database.rows(
            "SELECT a.outcome, a.ended_at FROM queuemgr_attempt a "
            "JOIN queuemgr_execution e ON e.id = a.execution_id WHERE e.key = 'once-0' ORDER BY a.id"
        ),
        *fleet.database.rows("SELECT limit_name, spent FROM queuemgr_allowanceusage"),
    ]


def test_the_same_1000_keys_from_four_processes_at_once_are_1000_executions(fleet: Fleet) -> None:
    """Each key is new to exactly one of them, and each says how many were."""
    racing = [fleet.start_command(*probes(1000, key_prefix="same")) for _ in range(4)]
    outputs = [command.end() for command in racing]
    counts = [re.match(r"(\d+) new, (\d+) already there", line) for line in outputs]
    numbers = [(int(count[1]), int(count[2])) for count in counts if count]
    assert [sum(column) for column in zip(*numbers, strict=True)] == [1000, 3000]
    assert fleet.states() == {"waiting": 1000}
