"""What an operator orders takes effect at once: cancel, pause, resume; and what a retry keeps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet


@pytest.fixture(scope="module")
def busy(make_shared_fleet: MakeFleet) -> Fleet:
    """A fleet with one worker, which serves every queue but wrap's; no beat."""
    fleet = make_shared_fleet(max_per_host=1)
    queues = [f"{phase}.{p}" for phase in ("prep", "expensive") for p in ("high", "normal", "low")]
    fleet.start_worker(8, queues=",".join(queues))
    return fleet


def test_cancel_ends_waiting_work_at_once_and_running_work_within_seconds(busy: Fleet) -> None:
    busy.enqueue(1, key_prefix="cancel-running", seconds=60)
    busy.enqueue(1, key_prefix="cancel-waiting", phase="wrap")
    busy.wait_until("it runs", lambda: busy.states("cancel-running-0")["running"] == 1)
    output = busy.queue("cancel", "cancel-running-0", "cancel-waiting-0", "--reason", "wrong paper")
    assert output.startswith("2 cancelled")
    assert busy.states("cancel-waiting-0") == {"cancelled": 1}
    busy.wait_until("it is cancelled", lambda: busy.states("cancel-running-0") == {"cancelled": 1}, within=15)
    assert busy.outcomes("cancel-running-0") == {"cancelled": 1}
    assert busy.outcomes("cancel-waiting-0") == {}


def test_pausing_a_queue_a_limit_or_everything_stops_starts_and_resuming_starts_work_at_once(
    busy: Fleet,
) -> None:
    busy.queue("pause", "prep.low", "--reason", "low later")
    busy.queue("pause", "host:a")
    busy.enqueue(2, key_prefix="paused-queue", priority="low")
    busy.enqueue(2, key_prefix="paused-limit", limit_key="host:a")
    busy.enqueue(2, key_prefix="free", limit_key="host:b")
    busy.wait_until_done(2, "free-%")
    busy.queue("pause", "everything", "--reason", "moving house")
    busy.enqueue(2, key_prefix="paused-all")
    assert busy.states("paused-%") == {"waiting": 6}
    reasons = " ".join(stopped["reason"] for stopped in busy.stats()["waiting_on"])
    for expected in ("prep.low paused by", "low later", "host:a paused by", "moving house"):
        assert expected in reasons

    for target, like in [("everything", "all"), ("prep.low", "queue"), ("host:a", "limit")]:
        busy.queue("resume", target)
        busy.wait_until_done(2, f"paused-{like}-%", within=10)
    assert busy.outcomes("paused-%") == {"done": 6}, "waiting was no attempt"


def test_a_retry_keeps_key_queue_and_priority_and_waits_in_the_database(busy: Fleet) -> None:
    """Due at its time without beat; nothing of it is in the broker."""
    options: dict[str, Any] = {"phase": "expensive", "priority": "high", "limit_key": "host:z"}
    busy.enqueue(1, key_prefix="again", fail="network", requests=1, **options)
    busy.wait_until("first failure", lambda: busy.outcomes("again-0") == {"retried": 1})
    state, reason = busy.database.rows(
        "SELECT state, wait_reason FROM queuemgr_execution WHERE key = 'again-0'"
    )[0]
    assert (state, reason) == ("waiting", "attempt 2 of 6 after network")
    with busy.redis() as redis:
        held = redis.llen("expensive.high"), redis.hlen("unacked"), redis.zcard("unacked_index")
    assert held == (0, 0, 0)

    due = datetime.now(UTC) + timedelta(seconds=2)
    busy.database.run(
        "UPDATE queuemgr_execution SET run_after = %s WHERE key = 'again-0'", str(due.replace(tzinfo=None))
    )
    busy.wait_until("second failure", lambda: busy.outcomes("again-0") == {"retried": 2})
    first, second = busy.attempts("--key", "again-0")
    same = ("key", "phase", "step", "priority", "limit_key", "requests")
    assert [second[name] for name in same] == [first[name] for name in same]
    assert [first[name] for name in options] == list(options.values())
    assert datetime.fromisoformat(second["started"]) >= due
