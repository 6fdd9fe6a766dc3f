"""Failures that come together cost about what successes cost: statements do not grow with their number."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from queuemgr.flows.outcomes import Done, Failed, Interrupted, Lost, Result, Snoozed
from queuemgr.lifecycle import finish, leases
from queuemgr.lifecycle.finish import Finish
from queuemgr.models import Attempt, Execution, Lease
from queuemgr.scheduling import breakers

pytestmark = pytest.mark.django_db(transaction=True)

LATER = datetime(2099, 1, 1, tzinfo=UTC)

ENDINGS: dict[str, Callable[[int], Result]] = {
    "done": lambda number: Done(),
    "failed": lambda number: Failed("server_error", f"500 for item {number}"),
    "throttled": lambda number: Failed("rate_limited", f"429 for item {number}", retry_after=30),
    "given up": lambda number: Failed("not_found", f"no item {number}"),
    "snoozed": lambda number: Snoozed(60 + number, f"not before {number}"),
    "interrupted": lambda number: Interrupted("shutdown"),
    "lost": lambda number: Lost(f"its process (pid {number}) was killed"),
}


@pytest.mark.parametrize("how", ENDINGS)
def test_the_statements_of_endings_that_come_together_do_not_grow_with_their_number(
    how: str,
    played: Callable[..., Any],
    probes: Callable[..., list[Execution]],
    configure: Callable[..., None],
) -> None:
    configure(max_prep=100)
    worker = played(slots=64)
    counts = []
    for number, prefix in ((4, "few"), (32, "many")):
        probes(number, prefix=prefix, limit_key="model:a")
        grants = worker.begin_all()
        assert len(grants) == number
        endings = [Finish(grant.lease_id, ENDINGS[how](n)) for n, grant in enumerate(grants)]
        with CaptureQueriesContext(connection) as statements:
            finish.finish_batch(endings, None)
        counts.append(len(statements))
        _out_of_the_way(prefix)
    assert counts[1] <= counts[0] + 2, counts
    assert Attempt.objects.count() == 36


def _out_of_the_way(prefix: str) -> None:
    """Have what waits of these start no more in this test, and close the breaker they opened."""
    leases.revoke_unstarted(Lease.objects.values_list("pk", flat=True))
    Execution.objects.filter(key__startswith=prefix, state="waiting").update(run_after=LATER)
    breakers.reset(["model:a"])
