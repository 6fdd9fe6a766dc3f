"""When `queue run --drain` ends."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest

from queuemgr.cli import drain
from queuemgr.models import Execution, State
from queuemgr.operations import bulk
from queuemgr.operations.bulk import chunk
from queuemgr.scheduling import limit_rows
from tests.integration.operations.bulk_fixtures import ANN, FAILED, some_failed, started

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _ready(sent: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queuemgr.lifecycle.publish.periodic_job", lambda task: None)
    monkeypatch.setattr(drain, "POLL_SECONDS", 0.0)
    limit_rows.sync()


def test_draining_waits_for_what_a_bulk_action_may_still_enqueue() -> None:
    some_failed(2)
    action = started("retry", FAILED, per_minute=60)
    looks = 0

    def activity() -> None:
        """What happens during the run: nothing at first, then the action, then the work."""
        nonlocal looks
        looks += 1
        assert looks < 50, "the run never ends"
        if looks == 3:
            chunk.change_next(action.pk, rows=1)
            bulk.stop(action.pk, ANN)
        if looks == 6:
            Execution.objects.waiting().update(state=State.SKIPPED, finished_at=action.created_at)

    output = StringIO()
    drained = drain.drain(output, check=activity)
    assert looks >= 6, "it ended before the work the action let loose"
    assert (drained.counts.failed, drained.stopped) == (1, ())
    assert f"failed 2  waiting for bulk action retry #{action.pk}, which may add work" in output.getvalue()
