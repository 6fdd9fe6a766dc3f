"""RabbitMQ as the broker: an outage costs time, starts nothing twice, and no process minds for long."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import probes
from tests.acceptance.test_beat import TASK_RESULTS
from tests.services.conftest import need
from tests.services.rabbitmq import RabbitMQ

OUTAGE = 8
"""Seconds the broker is away: longer than leases that nobody starts are kept."""


@pytest.fixture
def rabbitmq(tmp_path: Path) -> Iterator[RabbitMQ]:
    need("rabbitmq-server", "rabbitmq-server")
    server = RabbitMQ(need("epmd", "erlang-base"), tmp_path / "rabbitmq")
    try:
        server.start()
        yield server
    finally:
        server.close()


def test_an_outage_of_rabbitmq_starts_nothing_twice_and_beat_logs_no_traceback(
    rabbitmq: RabbitMQ, make_fleet: MakeFleet
) -> None:
    """Every start goes by message (no hand-over), and enqueuing continues meanwhile."""
    fleet = make_fleet(lease_seconds=4, slot_handover_seconds=0, max_prep=6)
    fleet.environment["BROKER_URL"] = rabbitmq.url
    fleet.tolerate("")
    beat = fleet.start_beat()
    workers = [
        fleet.start_worker(6, name="threads", wait=False),
        fleet.start_worker(3, "prefork", name="prefork", wait=False),
        fleet.start_housekeeping(),
    ]
    fleet.wait_for_workers(*workers)
    fleet.command(*probes(80, seconds=0.2, trace=fleet.trace_file))
    fleet.wait_until("under way", lambda: fleet.states()["done"] >= 15)
    rabbitmq.kill()
    fleet.command(*probes(10, seconds=0.2, trace=fleet.trace_file, key_prefix="meanwhile"))
    time.sleep(OUTAGE)
    assert beat.alive
    rabbitmq.start()
    fleet.wait_until_done(90)
    ticks = len(fleet.database.rows(TASK_RESULTS))
    fleet.wait_until("beat continues", lambda: len(fleet.database.rows(TASK_RESULTS)) > ticks + 2)

    assert fleet.outcomes() == {"done": 90}
    trace = fleet.trace()
    assert (len(trace.runs), trace.started_again(), trace.unended()) == (90, [], [])
    assert trace.passed(6) == []
    assert all(process.alive for process in [beat, *workers])
    assert "Traceback" not in beat.output and "the broker does not answer" in beat.output
