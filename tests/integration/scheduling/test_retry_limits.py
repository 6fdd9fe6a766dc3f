"""Retries: their share of starts, the policy of a phase, and an outage that is no error of the step."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from queuemgr.flows.outcomes import Failed
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import Attempt, Execution, Lease, Outcome, Route, State
from queuemgr.operations import controls
from queuemgr.scheduling import decision_input, limit_rows
from tests.integration.conftest import let_time_pass
from tests.integration.scheduling.limited_work import ANN, Played, Probes, leased

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("rows_of_limits")]


def test_retries_are_limited_to_a_percentage_of_starts(
    played: Played, probes: Probes, configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_input, "RETRIES_ALWAYS_ALLOWED", 2)
    configure(retry_percent=10)
    worker = played(slots=20)
    probes(10)
    for grant in worker.begin_all():
        worker.end(grant, Failed("network", "refused"), next_too=False)
    let_time_pass(Execution.objects.waiting())
    dispatch()
    assert Lease.objects.filter(retrying=True).count() == 2
    waiting = Route.objects.get(parked_on="retries")
    assert waiting.retrying and waiting.parked_until is not None
    for grant in worker.begin_all():
        worker.end(grant, next_too=False)
    assert Attempt.objects.filter(retrying=True, outcome=Outcome.DONE).count() == 2
    dispatch()
    assert leased() == 0


def test_an_edited_retry_policy_holds_for_the_next_failure_of_its_phase(
    played: Played, probes: Probes
) -> None:
    limit_rows.sync()
    worker = played(slots=1)
    probes(1)
    controls.edit_policy("network", "prep", ANN, max_attempts=2, base=0, ceiling=0, jitter=0)
    for expected in (State.LEASED, State.FAILED):
        (grant,) = worker.begin_all()
        worker.end(grant, Failed("network", "refused"), next_too=False)
        assert Execution.objects.get().state == expected


def test_an_unavailable_database_is_not_reported_as_an_error_of_the_step() -> None:
    from django.db import OperationalError

    from queuemgr.flows.abort_signal import AbortSignal
    from queuemgr.worker.application_code import as_result

    failed = as_result(OperationalError("terminating connection"), AbortSignal())
    assert isinstance(failed, Failed)
    assert failed.kind == "storage"
