"""Webhooks by real processes: plain workers, one of them killed while it delivers."""

from __future__ import annotations

import pytest

from tests.acceptance.conftest import MakeFleet
from tests.webhook_receiver import SECRET, receiver


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_what_a_killed_worker_was_delivering_is_delivered_by_another_with_the_same_id(
    make_fleet: MakeFleet, pool: str
) -> None:
    fleet = make_fleet(
        lease_seconds=4, webhook_secrets=f"ops={SECRET}", webhook_allow_private="on", webhook_seconds=60
    )
    with receiver() as there:
        there.answers = ["stall"]
        add = ("webhook", "add", "ops", there.url, "--event", "finished", "--allow-private")
        fleet.queue(*add)
        doomed = fleet.start_worker(2, pool, name="doomed")
        fleet.enqueue(1)
        fleet.wait_until("it is being delivered", lambda: len(there.requests) == 1)
        doomed.kill_group()
        fleet.start_worker(2, pool, name="survivor")
        fleet.wait_until("it was delivered", lambda: len(there.requests) == 2)
        fleet.wait_until("its delivery is done", lambda: fleet.states() == {"done": 2})
        first, second = there.requests
    assert first.id == second.id and first.body == second.body
    assert first.is_signed_with(SECRET) and second.is_signed_with(SECRET)
    assert second.json["type"] == "execution.finished"
    for log in fleet.directory.glob("*.log"):
        assert SECRET not in log.read_text()
