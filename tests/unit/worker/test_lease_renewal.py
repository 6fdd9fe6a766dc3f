"""When the leases of a process are renewed again."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from queuemgr.base.config import queue_settings
from queuemgr.flows.flow import NORMAL
from queuemgr.lifecycle import leases
from queuemgr.lifecycle.leases import Grant, Renewed
from queuemgr.models import Worker
from queuemgr.worker import lease_renewal
from queuemgr.worker.background_thread import RETRY_SECONDS
from queuemgr.worker.current_worker import CurrentWorker
from queuemgr.worker.running_steps import RunningSteps


@pytest.mark.parametrize("ending", [True, False])
def test_a_lease_whose_step_is_being_ended_is_tried_again_in_a_second(
    ending: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its store may yet lose its connection, and the result is then stored in another transaction."""
    grant = Grant(uuid4(), 1, "probe", "p", "prep", "probe", NORMAL, "", {}, {})
    monkeypatch.setattr(lease_renewal, "database_now", lambda: datetime(2026, 1, 1, tzinfo=UTC))
    monkeypatch.setattr(leases, "renew", lambda ids, *_: Renewed(set(), set(ids) if ending else set()))
    worker = CurrentWorker(Worker(pk=1, name="w"))
    steps = RunningSteps(worker.name)
    with steps.running(grant) as step:
        wait = lease_renewal.renew(worker, steps)
    assert wait == (RETRY_SECONDS if ending else queue_settings().heartbeat_seconds)
    assert queue_settings().heartbeat_seconds > RETRY_SECONDS
    assert not step.signal.aborted
