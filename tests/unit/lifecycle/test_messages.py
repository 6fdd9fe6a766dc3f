"""What a message says to Celery about itself."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
import redis
from celery import current_app
from celery.signals import before_task_publish
from redis.connection import Connection

from queuemgr.flows.flow import NORMAL
from queuemgr.lifecycle import publish
from queuemgr.lifecycle.leases import Grant


def test_a_message_carries_limits_of_its_own_whatever_celerys_settings_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A message without any has those of `task_time_limit`, by which Celery ends a slot's process."""
    for setting in ("task_time_limit", "task_soft_time_limit"):
        monkeypatch.setitem(current_app.conf, setting, 1)
        assert current_app.conf[setting] == 1
    said: list[Any] = []

    def see(headers: dict[str, Any], **_: object) -> None:
        said.append(headers["timelimit"])

    before_task_publish.connect(see)
    try:
        sent = publish.send([Grant(uuid4(), 1, "probe", "p", "prep", "probe", NORMAL, "", {}, {})])
    finally:
        before_task_publish.disconnect(see)
    assert (sent, said) == (1, [[publish.NO_TIME_LIMIT, publish.NO_TIME_LIMIT]])


def test_two_hundred_starts_are_one_round_trip_to_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    grants = [
        Grant(uuid4(), n, "probe", f"p{n}", "prep", "probe", NORMAL, "", {}, {}, is_async=n % 2 == 1)
        for n in range(200)
    ]
    publish.send(grants[:2])  # connects, and declares a queue
    trips: list[int] = []
    monkeypatch.setattr(Connection, "send_packed_command", _counting(trips))
    assert publish.send(grants) == 200
    assert len(trips) == 1


def test_what_a_broken_connection_may_have_lost_counts_as_unsent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise redis.ConnectionError("gone")

    grants = [Grant(uuid4(), n, "probe", f"p{n}", "prep", "probe", NORMAL, "", {}, {}) for n in range(3)]
    publish.send(grants[:1])
    monkeypatch.setattr(Connection, "send_packed_command", broken)
    assert publish.send(grants) == 0
    assert "3 leases will be granted again" in caplog.text


def test_what_was_collected_before_an_error_counts_as_unsent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As when the connection breaks while a queue is declared that no message was sent to before."""
    grants = [Grant(uuid4(), n, "probe", f"p{n}", "prep", "probe", NORMAL, "", {}, {}) for n in range(3)]
    task_of = publish.task_of

    def broken(grant: Grant) -> str:
        if grant is grants[2]:
            raise redis.ConnectionError("gone")
        return task_of(grant)

    monkeypatch.setattr(publish, "task_of", broken)
    assert publish.send(grants) == 0
    assert "3 leases will be granted again" in caplog.text


def _counting(trips: list[int]) -> Any:
    send: Any = Connection.send_packed_command

    def counted(*arguments: Any, **how: Any) -> Any:
        trips.append(1)
        return send(*arguments, **how)

    return counted
