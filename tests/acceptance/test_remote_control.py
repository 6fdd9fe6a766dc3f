"""Whoever reaches the broker may ask a worker, and no more; what a worker consumes now is what is shown."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import STEP_QUEUES, Fleet

CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("cancel_consumer", {"queue": "prep.normal"}),
    ("add_consumer", {"queue": "elsewhere"}),
    ("shutdown", {}),
    ("pool_shrink", {"n": 1}),
    ("pool_grow", {"n": 50}),
    ("pool_restart", {"modules": ["os"]}),
    ("autoscale", {"max": 1, "min": 0}),
    ("rate_limit", {"task_name": "probe.run", "rate_limit": "1/h"}),
    ("time_limit", {"task_name": "probe.run", "soft": 0.001, "hard": 0.001}),
    ("disable_events", {}),
    ("report", {}),
    ("memdump", {}),
    ("revoke", {"task_id": ["x"], "terminate": True, "signal": "KILL"}),
    ("terminate", {"task_id": ["x"], "signal": "KILL"}),
    ("registered", {"taskinfoitems": ["__dict__"]}),
    ("no such command\x1b[2J", {}),
]


def test_a_worker_answers_questions_and_refuses_what_would_change_it(fleet: Fleet) -> None:
    worker = fleet.start_worker(2)
    app = fleet.celery()
    with app.connection_for_write() as connection:

        def asked(command: str, **arguments: Any) -> Any:
            (answer,) = app.control.broadcast(
                command, arguments=arguments, reply=True, limit=1, timeout=10, connection=connection
            )
            return next(iter(answer.values()))

        for command, arguments in CHANGES:
            assert "refused: " in asked(command, **arguments)["error"], command
        assert worker.output.count("refused the remote control command") == len(CHANGES)
        assert "\x1b" not in worker.output
        assert asked("ping") == {"ok": "pong"}
        queues = [queue["name"] for queue in asked("active_queues")]
        assert sorted(queues) == sorted(STEP_QUEUES.split(","))
        assert asked("stats")["pool"]["max-concurrency"] == 2
        assert "probe.run" in asked("registered")
        assert (asked("active"), asked("reserved"), asked("scheduled")) == ([], [], [])
        assert "ok" in asked("revoke", task_id=["x"])
        assert asked("query_task", ids=["x"]) == {}
    fleet.enqueue(3)
    fleet.wait_until_done(3)


@pytest.mark.parametrize("order", ["prep.normal", "all"])
def test_a_queue_that_a_worker_consumes_no_more_is_said_within_two_heartbeats(
    make_fleet: MakeFleet, order: str
) -> None:
    fleet = make_fleet(slot_handover_seconds=0)
    fleet.start(
        "deaf", sys.executable, "-W", "ignore", "-m", "celery", "-A", "tests.acceptance.deaf_worker",
        "worker", "-P", "threads", "-c", "2", "-Q", STEP_QUEUES, "-n", "deaf@%h", "-l", "INFO",
        "--without-mingle",
    )  # fmt: skip
    (deaf,) = [process for process in fleet.processes if process.name == "deaf"]
    fleet.wait_for_workers(deaf)
    fleet.enqueue(1)
    fleet.wait_until_done(1)
    (fleet.directory / "cancel").write_text(order)
    consumed = "SELECT queues FROM queuemgr_worker WHERE name LIKE 'deaf%%'"
    fleet.wait_until("it is said", lambda: "prep.normal" not in str(fleet.one(consumed)), within=5)
    assert "takes no messages from: " in deaf.output
    fleet.enqueue(2, key_prefix="after")
    found = fleet.start_program("doctor", "manage.py", "doctor", "--json").end(1)
    bad = [line["what"] for line in map(json.loads, found.splitlines()) if line["level"] == "bad"]
    assert any("2 executions wait" in what for what in bad), bad
    assert fleet.states("after%") == {"waiting": 2}
