"""What a message says to Celery about itself."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from celery import current_app
from celery.signals import before_task_publish

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
