"""Flower as `up` starts it: behind the admin's login, read-only; and the events it gets of a step."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest

from pipeline.management.commands.up import _flower
from queuemgr.base.errors import ConfigurationError
from queuemgr.base.redaction import register_secret
from queuemgr.flows.outcomes import Failed
from queuemgr.lifecycle import publish, task_events
from queuemgr.lifecycle.leases import Grant
from queuemgr.local.private_servers import wait_for_port
from queuemgr.models import Outcome

LOGIN = ("admin", "only-for-this-test")
WRITE_PATHS = (
    "worker/shutdown/w", "worker/pool/restart/w", "worker/pool/grow/w", "worker/pool/shrink/w",
    "worker/pool/autoscale/w", "worker/queue/add-consumer/w", "worker/queue/cancel-consumer/w",
    "task/apply/probe.run", "task/async-apply/probe.run", "task/send-task/probe.run",
    "task/abort/x", "task/timeout/probe.run", "task/rate-limit/probe.run", "task/revoke/x",
)  # fmt: skip
READ_PATHS = ("", "tasks", "api/tasks", "api/workers", "api/queues/length")


@pytest.fixture(scope="module")
def flower() -> Iterator[str]:
    """The address of one whose environment also asks for an open API."""
    served = _flower(LOGIN)
    environment = {
        **os.environ, "FLOWER_UNAUTHENTICATED_API": "true", **served.program.environment
    }  # fmt: skip
    quiet = subprocess.DEVNULL
    with subprocess.Popen(served.program.command, env=environment, stdout=quiet, stderr=quiet) as process:
        try:
            _wait_for(served.port, process)
            yield f"http://127.0.0.1:{served.port}/"
        finally:
            process.kill()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """It imports much; on a busy machine that takes longer than one wait."""
    for _ in range(4):
        with suppress(ConfigurationError):
            return wait_for_port(port, process)
    return wait_for_port(port, process)


def status(address: str, login: tuple[str, str] | None = None, **headers: str) -> int:
    """What it answers to a GET, or to a POST where it would change something."""
    method = "POST" if address.split("api/")[-1] in WRITE_PATHS else "GET"
    if login:
        headers["Authorization"] = f"Basic {base64.b64encode(':'.join(login).encode()).decode()}"
    try:
        with urlopen(Request(address, headers=headers, method=method), timeout=20) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


def test_nothing_is_readable_or_writable_without_the_login(flower: str) -> None:
    """Mher/flower#1217, even with its API switched on."""
    for path in (*READ_PATHS, *(f"api/{path}" for path in WRITE_PATHS)):
        assert status(flower + path) == 401, path
        assert status(flower + path, ("admin", "guessed")) == 401, path


def test_the_login_allows_reading_and_no_changes(flower: str) -> None:
    """No task can be enqueued through it, nor from a page of another origin."""
    assert status(flower, LOGIN) == 200
    for path in WRITE_PATHS:
        assert status(f"{flower}api/{path}", LOGIN) == 403, path
        assert status(f"{flower}api/{path}", LOGIN, Origin="https://evil.example") == 403, path


class RecordedEvents:
    """Replaces the event dispatcher, and keeps what it is sent."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def send(self, kind: str, **fields: Any) -> None:
        self.events.append({"type": kind, **fields})


def a_grant(key: str) -> Grant:
    return Grant(
        lease_id=uuid4(), execution_id=1, flow="probe", key=key, phase="prep", step="probe",
        priority=1, limit_keys="", payload={}, context={},
    )  # fmt: skip


def test_events_name_the_document_and_contain_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the name and arguments of a step, and in the message it ended with."""
    register_secret("a-token-of-the-tests")
    recorded = RecordedEvents()
    monkeypatch.setattr(task_events, "EventDispatcher", lambda *given, **how: recorded)
    sender = task_events.StepEvents("w@test", enabled=True)
    grant = a_grant("url:https://user:hunter22@example.org/a.pdf?t=a-token-of-the-tests")
    sender.began([grant])
    sender.ended(str(grant.lease_id), Outcome.FAILED, Failed("x", "a-token-of-the-tests"), 1.0)
    assert recorded.events[0]["name"] == publish.task_of(grant)
    assert "example.org/a.pdf" in recorded.events[0]["args"]
    assert "prep" in recorded.events[0]["kwargs"]
    everything = str(recorded.events)
    assert "hunter22" not in everything
    assert "a-token-of-the-tests" not in everything
