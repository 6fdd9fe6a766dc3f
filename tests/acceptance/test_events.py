"""Celery's own monitors see every step, handed over or not, as a task of its own."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any

from queuemgr.local.private_servers import free_port
from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet

ENDS = {
    "done": "task-succeeded", "failed": "task-failed", "retried": "task-retried",
    "cancelled": "task-revoked", "lost": "task-failed",
}  # fmt: skip


def test_events_and_flower_show_every_attempt_once_with_name_key_and_outcome(make_fleet: MakeFleet) -> None:
    """Done (few messages, many handed over), failed, to be retried, cancelled and lost."""
    fleet = make_fleet(lease_seconds=4)
    with _events(fleet) as events:
        flower = _start_flower(fleet)
        doomed = fleet.start_worker(1, name="doomed", queues="wrap.low", options=["-E"], wait=False)
        worker = fleet.start_worker(4, queues="prep.normal,expensive.normal", options=["-E"], wait=False)
        fleet.wait_for_workers(doomed, worker)
        fleet.wait_until("flower answers", lambda: flower.tasks() is not None)
        fleet.enqueue(1, key_prefix="endless", phase="expensive", seconds=60)
        fleet.enqueue(1, key_prefix="orphan", phase="wrap", priority="low", seconds=60)
        fleet.enqueue(40, key_prefix="fine", seconds=0.05)
        fleet.enqueue(1, key_prefix="broken", fail="not_found")
        fleet.enqueue(1, key_prefix="flaky", fail="unexpected")
        fleet.wait_until("the orphan runs", lambda: fleet.states("orphan-0") == {"running": 1})
        doomed.kill_group()
        fleet.wait_until("it runs", lambda: fleet.states("endless-0") == {"running": 1})
        fleet.queue("cancel", "endless-0", "--reason", "x")
        ended = {"done": 40, "failed": 1, "retried": 1, "cancelled": 1, "lost": 1}
        fleet.wait_until("all ended somehow", lambda: fleet.outcomes() == ended)
        attempts = {attempt["lease"]: attempt for attempt in fleet.attempts()}
        fleet.wait_until("flower has them all", lambda: flower.tasks().keys() >= attempts.keys())
        in_flower = flower.tasks()
    assert in_flower.keys() == attempts.keys()
    assert {task["name"] for task in in_flower.values()} == {"probe.run"}
    for lease, attempt in attempts.items():
        of_lease = events[lease]
        kinds = [event["type"] for event in of_lease]
        assert kinds == ["task-received", "task-started", ENDS[attempt["outcome"]]], attempt
        assert of_lease[0]["name"] == "probe.run"
        assert repr(attempt["key"]) in of_lease[0]["args"]
    assert events.keys() - {""} == attempts.keys()


class _Flower:
    """A Flower beside the fleet, queried over its API."""

    def __init__(self, fleet: Fleet, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/tasks?limit=1000"
        fleet.environment["FLOWER_UNAUTHENTICATED_API"] = "true"
        fleet.start(
            "flower", sys.executable, "-m", "celery", "-A", "project", "flower",
            "--address=127.0.0.1", f"--port={port}",
        )  # fmt: skip

    def tasks(self) -> Any:
        """Its tasks by id, or None while it does not answer."""
        with suppress(OSError), urllib.request.urlopen(self._url, timeout=5) as answer:
            return json.load(answer)
        return None


def _start_flower(fleet: Fleet) -> _Flower:
    return _Flower(fleet, free_port())


@contextmanager
def _events(fleet: Fleet) -> Iterator[dict[str, list[dict[str, Any]]]]:
    """What `celery events` would see while the block runs: the events of each task, by its id."""
    seen: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    app = fleet.celery()
    with app.connection_for_read() as connection:
        receiver = app.events.Receiver(
            connection, handlers={"*": lambda event: seen[event.get("uuid", "")].append(event)}
        )
        thread = Thread(target=receiver.capture, kwargs={"limit": None, "timeout": None})
        thread.start()
        try:
            yield seen
        finally:
            receiver.should_stop = True
            thread.join()
            app.close()
