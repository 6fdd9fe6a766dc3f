"""The whole fleet against the real database: any moves in any order, and what holds after each.

Above all: parked routes and their wake-ups never leave work unstarted that a look at everything
would start. `SLUICE_MODEL_EXAMPLES` says how many histories are played (the proof plays many).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from queuemgr.base.scheduler_lock import SchedulerLock
from queuemgr.flows import flow
from queuemgr.lifecycle import scheduler
from queuemgr.lifecycle.leases import Grant
from queuemgr.lifecycle.scheduler import GrantResult
from queuemgr.scheduling import decision_input, parking
from tests.model.fleet_machine import FleetMachine, Surroundings
from tests.model.fleet_moves import MODEL
from tests.private_servers import MODEL_EXAMPLES


@pytest.fixture
def around(
    sent: list[Grant], in_threads: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Surroundings]:
    surroundings = Surroundings(sent, in_threads)
    decide = scheduler.schedule

    def decide_and_note(lock: SchedulerLock, *given: Any) -> GrantResult:
        granted = decide(lock, *given)
        surroundings.decided_at = lock.now
        return granted

    monkeypatch.setattr(scheduler, "schedule", decide_and_note)
    monkeypatch.setattr(parking, "unpark_sample", lambda lock: None)  # it would heal what is lost
    monkeypatch.setattr(decision_input, "RETRIES_ALWAYS_ALLOWED", 3)
    monkeypatch.setitem(flow._flows, "model", MODEL)
    return surroundings


@pytest.mark.django_db(transaction=True)
def test_limits_hold_and_nothing_startable_waits_whatever_happens_in_whatever_order(
    around: Surroundings, configure: Callable[..., None]
) -> None:
    configure(max_workers=12, max_per_host=2, starvation_seconds=120, heavy_wait_seconds=60, daily_budget=0)

    class Machine(FleetMachine):
        pass

    Machine.around = around
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=MODEL_EXAMPLES,
            stateful_step_count=40,
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.shrink),
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
