"""Workers over the API: listed, drained and resumed."""

from __future__ import annotations

from typing import Any

import pytest

from queuemgr.models import AuditEntry, WorkerDrain
from tests.integration.web.api.api_client import api

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root", "sent")]


def test_a_worker_is_listed_drained_and_resumed(make_worker: Any) -> None:
    make_worker(name="steps@a", slots=2)
    caller = api("read", "operate")
    drained = caller.post("workers/steps@a/drain", {"reason": "new disk"})
    assert (drained.status_code, drained.json()) == (
        200, {"worker": "steps@a", "drained": True, "changed": True},
    )  # fmt: skip
    assert caller.post("workers/steps/drain", {}).json()["changed"] is False
    (worker,) = caller.get("workers").json()["workers"]
    assert (worker["condition"], worker["drain_reason"], worker["slots"]) == ("drained", "new disk", 2)
    assert caller.post("workers/steps@a/resume", {}).json()["drained"] is False
    assert not WorkerDrain.objects.exists()
    assert [entry.source for entry in AuditEntry.objects.filter(target="steps@a")] == ["api", "api"]


def test_draining_needs_scope_and_permission_and_a_worker_that_is_known(make_worker: Any) -> None:
    make_worker(name="steps@a")
    assert api("read", name="reader").post("workers/steps@a/drain", {}).status_code == 403
    viewer = api("operate", permissions=["view_worker"], name="viewer")
    assert viewer.post("workers/steps@a/drain", {}).status_code == 403
    unknown = api("operate", name="operator").post("workers/nobody/drain", {})
    assert (unknown.status_code, "there are: steps@a" in unknown.json()["detail"]) == (404, True)
    assert not WorkerDrain.objects.exists()
