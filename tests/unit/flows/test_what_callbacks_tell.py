"""What a flow's callbacks say to people is shown without the installation's secrets."""

from __future__ import annotations

import pytest

from queuemgr.base import redaction
from queuemgr.flows import callbacks
from queuemgr.flows.flow import CheckResult, Flow, Link, register_flow
from queuemgr.reporting import export

SECRET = "a-key-of-a-service"
TOLD = f"with {SECRET} and postgres://ann:hidden@a.example/"
MASKED = "with *** and postgres://***:***@a.example/"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Flow:
    monkeypatch.setattr(redaction, "_secrets", set())
    monkeypatch.setattr("queuemgr.flows.flow._flows", {})
    redaction.register_secret(SECRET)
    return register_flow(
        Flow(
            "told", (), link=lambda key: TOLD, artifacts=lambda key: [Link(TOLD, TOLD)],
            checks=lambda: [CheckResult("bad", TOLD, TOLD)], export=lambda keys: {"a": {TOLD: [TOLD, 1]}},
        )
    )  # fmt: skip


def test_links_checks_and_exported_items_hold_no_secret(told: Flow) -> None:
    assert callbacks.link(told, "a") == MASKED
    assert callbacks.artifacts(told, "a") == [Link(MASKED, MASKED)]
    assert callbacks.checks(told) == [CheckResult("bad", MASKED, MASKED)]
    assert export.flow_data("told", ["a"]) == {"a": {MASKED: [MASKED, 1]}}
