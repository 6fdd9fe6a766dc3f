"""The broker: whether it passes messages, and whether it drops some."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from celery import current_app

from queuemgr.base.data_directory import data_directory
from queuemgr.flows.flow import CheckResult
from queuemgr.lifecycle.publish import broker_errors
from queuemgr.local import private_broker
from queuemgr.local.broker_problems import broker_problem


def answers() -> Iterator[CheckResult]:
    if private_broker.is_wanted() and not (data_directory() / private_broker.FILE).exists():
        yield CheckResult("note", "no BROKER_URL: `up` and `queue run` start a private broker",
                      "set BROKER_URL for workers started by hand")  # fmt: skip
        return
    if problem := broker_problem():
        yield CheckResult("bad", problem.what, f"{problem.remedy}; work waits in the database meanwhile")
        return
    yield CheckResult("good", f"broker {current_app.connection_for_write().as_uri()} passes messages")
    yield from _eviction()


def _eviction() -> Iterator[CheckResult]:
    """Whether Redis drops messages when it is full; a server that does not say is skipped."""
    with current_app.connection_for_write() as link:
        if link.transport.driver_type != "redis":
            return
        try:
            channel: Any = link.default_channel
            policy = channel.client.info("memory").get("maxmemory_policy")
        except broker_errors():
            return
    if policy not in (None, "noeviction"):
        yield CheckResult("bad", f"the broker drops messages when it is full: maxmemory-policy {policy}",
                      "set it to noeviction; a dropped message is sent again, but late")  # fmt: skip
