"""What a batch may use together: its members run under a limit of its own, whatever becomes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from queuemgr import NEVER, Failed, Work
from queuemgr.base.errors import BadInput, NeverFits
from queuemgr.flows.flow import NewExecution
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import AllowanceUsage, AuditEntry, Batch, Execution, Lease, Limit
from queuemgr.operations import batch_allowances, batches, executions
from queuemgr.reporting import explain
from queuemgr.scheduling.claims import service_keys
from tests.integration.operations.batch_fixtures import ANN, made

pytestmark = [pytest.mark.django_db(transaction=True)]
Played = Callable[..., Any]


def paid(name: str, number: int, *, usd: float = 2, **rules: Any) -> Batch:
    batch = made(name, allowances="5 usd in total", **rules)
    payload = {"uses": {"usd": usd}, "limit_key": "openai:gpt"}
    batches.add(batch, [NewExecution(f"{name}{n}", payload) for n in range(number)])
    return batch


def test_a_batch_spends_no_more_than_it_may(played: Played) -> None:
    worker = played(slots=9)
    paid("a", 4)
    paid("b", 4)
    assert Lease.objects.count() == 4, "two of each: each has 5 usd of its own"
    for grant in worker.begin_all():
        Work(grant, NEVER).spend(usd=1)
        worker.end(grant, next_too=False)
    dispatch()
    assert Lease.objects.count() == 2, "of each batch 2 usd are spent, and one more of 2 fits"
    assert any(
        "usd 2.00 of 5.00 in total spent and 2.00 reserved" in each.text for each in explain.what_stops_work()
    )


def test_members_stay_under_it_when_they_are_retried_or_get_another_priority(played: Played) -> None:
    worker = played(slots=1)
    batch = paid("a", 2)
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("not_found", "404"), next_too=False)
    key = f"batch:{batch.pk}"
    executions.retry([Execution.objects.get(pk=grant.execution_id)], ANN)
    executions.set_priority(list(Execution.objects.waiting()), 0, ANN)
    waiting = [row.route.limit_keys for row in Execution.objects.exclude(route=None).select_related("route")]
    assert waiting == [f"openai:gpt {key}"] * 2
    assert service_keys(waiting[0]) == ("openai:gpt",), "the service is not to blame for the batch"


def test_it_is_recorded_shown_and_gone_with_its_batch(played: Played) -> None:
    batch = paid("a", 1)
    assert batches.rules_of(batch) == "5.00 usd in total"
    assert AuditEntry.objects.get(action="open batch").after["allowances"] == "5.00 usd in total"
    AllowanceUsage.objects.create(
        limit=f"batch:{batch.pk}", allowance="usd/total", starts_at=batch.created_at
    )
    batch_allowances.remove(batch.pk)
    assert not AllowanceUsage.objects.exists()
    assert not Limit.objects.filter(name__startswith="batch:").exists()


def test_what_cannot_be_allowed_or_could_never_start_is_refused() -> None:
    with pytest.raises(BadInput, match="fortnight"):
        made("a", allowances="5 usd/fortnight")
    assert not Batch.objects.exists()
    with pytest.raises(NeverFits, match=r"above the allowance 5\.00 usd in total"):
        paid("b", 1, usd=6)
