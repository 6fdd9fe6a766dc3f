"""Whatever is in the broker's queues, a worker continues, and what it cannot read is dropped and counted."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import STEP_QUEUES
from tests.malformed_messages import MARK, control_messages, kept_messages, malformed, well_formed

EXCHANGES = ("celery.pidbox", "celeryev/worker.heartbeat", "reply.celery.pidbox")


@pytest.mark.parametrize("pool", ["threads", pytest.param("prefork", marks=pytest.mark.slow_proof)])
def test_no_message_of_the_broker_ends_a_worker_or_holds_up_its_steps(
    make_fleet: MakeFleet, pool: str
) -> None:
    fleet = make_fleet()
    fleet.tolerate("")
    messages = malformed()
    with fleet.redis() as redis:
        for number, message in enumerate(kept_messages()):
            redis.hset("unacked", str(number), message)
            redis.zadd("unacked_index", {str(number): 0})
    worker = fleet.start_worker(4, pool)
    fleet.enqueue(40, seconds=0.2, trace=fleet.trace_file)
    with fleet.redis() as redis:
        for number, message in enumerate(messages):
            redis.lpush(STEP_QUEUES.split(",")[number % 9], message)
            if number % 5 == 0:
                for exchange in EXCHANGES:
                    redis.publish(f"/0.{exchange}", message)
        for message in control_messages():
            redis.publish("/0.celery.pidbox", message)
        fleet.wait_until_done(40)
        fleet.enqueue(5, key="after:{n}", trace=fleet.trace_file)
        fleet.wait_until(
            "nothing is left in the queues", lambda: not any(map(redis.llen, STEP_QUEUES.split(",")))
        )
        fleet.wait_until("no message waits to be acknowledged", lambda: not redis.hlen("unacked"))
    fleet.wait_until_done(45)
    assert worker.alive and "Unrecoverable" not in worker.output
    assert "Connection to broker lost" not in worker.output
    assert set(fleet.outcomes()) == {"done"} and fleet.trace().started_again() == []
    lines = re.findall(r"dropped (\d+) messages of the broker: (.*)", worker.output)
    counted = fleet.one("SELECT MAX(attempts) FROM queuemgr_minute WHERE error_kind = 'message_unreadable'")
    assert sum(int(number) for number, _ in lines) == counted > len(messages) / 3
    assert MARK not in worker.output
    with fleet.celery().connection_for_write() as connection:
        assert fleet.celery().control.ping(timeout=10, limit=1, connection=connection)


def test_a_well_formed_message_is_taken(make_fleet: MakeFleet) -> None:
    """What the malformed ones are made of would be run."""
    fleet = make_fleet()
    worker = fleet.start_worker(1)
    with fleet.redis() as redis:
        redis.lpush("prep.normal", json.dumps(well_formed()))
    refused = "SELECT COUNT(*) FROM queuemgr_minute WHERE error_kind = 'message_refused'"
    fleet.wait_until("its lease was asked for", lambda: fleet.one(refused))
    assert "dropped" not in worker.output


SWAPPED = ("text", "list", "set")


def put(redis: Any, key: str, kind: str) -> None:
    """Something of another type in the place of what the broker keeps under a key."""
    redis.delete(key)
    {
        "text": lambda: redis.set(key, MARK),
        "list": lambda: redis.lpush(key, MARK),
        "hash": lambda: redis.hset(key, MARK, MARK),
        "set": lambda: redis.sadd(key, MARK, b"\xff\xfe", "a\x06\x16b\x06\x16c\x06\x16d"),
        "zset": lambda: redis.zadd(key, {MARK: 1}),
    }[kind]()


def test_keys_of_the_broker_of_any_type_end_no_worker_and_work_continues(make_fleet: MakeFleet) -> None:
    fleet = make_fleet()
    fleet.tolerate("")
    worker = fleet.start_worker(2)
    with fleet.redis() as redis:
        fleet.enqueue(2, key="before:{n}")
        fleet.wait_until_done(2)
        names = sorted(
            {*map(bytes.decode, redis.keys()), *STEP_QUEUES.split(","), "unacked", "unacked_index"}
        )
        for number, kind in enumerate(SWAPPED, 1):
            for name in names:
                put(redis, name, kind)
            fleet.enqueue(2, key=f"{kind}:{{n}}")
            fleet.wait_until_done(2 + 2 * number)
    assert worker.alive and "Unrecoverable" not in worker.output
    assert MARK not in worker.output
