"""Every page and command that shows an estimate shows its range beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import NewExecution
from queuemgr.models import ActionState, Attempt, Batch, BulkAction, Execution, Limit, Outcome, State
from queuemgr.operations import batches, controls
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows
from tests.integration.cli.commands import queue
from tests.integration.web.admin.admin_pages import page, text_of

pytestmark = pytest.mark.django_db(transaction=True)
ANN = Actor("ann", "test")

ESTIMATED = re.compile(
    r"(?:ETA|(?:starts|done|out) about|runs out|all begun) "
    r"(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d UTC(?P<range> \(8 of 10: )?"
)
NAMES = ("eta", "starts_at", "finishes_at", "ends_at", "done_at", "runs_out_at")


@pytest.fixture
def work(transactional_db: None, sent: list[Any], played: Any) -> Batch:
    """A batch that goes on, a limit that runs out before its others begin, and a running bulk action."""
    limit_rows.sync()
    played(slots=1)
    controls.edit_limit("fleet", ANN, daily_budget=1_000_000, allowances="100 requests in total")
    batch = batches.open_batch("b1", "probe", ANN)
    batches.add(batch, [NewExecution(f"p{n}", {"requests": 10}) for n in range(24)])
    now = database_now()
    ended = Execution.objects.filter(batch=batch).order_by("pk")[:4]
    for n, execution in enumerate(ended):
        at = now - timedelta(minutes=9 - 2 * n)
        Attempt.objects.create(
            lease_id=uuid4(), execution=execution, phase="prep", step="probe", priority=1, cost=10,
            due_at=at, leased_at=at, started_at=at, ended_at=at + timedelta(seconds=9), outcome=Outcome.DONE,
        )  # fmt: skip
        Execution.objects.filter(pk=execution.pk).update(
            state=State.DONE, route=None, finished_at=at + timedelta(seconds=9)
        )
    BulkAction.objects.create(
        verb="retry",
        state=ActionState.RUNNING,
        matched=100,
        changed=10,
        up_to=100,
        per_minute=1,
        started_at=now,
        actor="ann",
    )
    return batch


def estimates_in(found: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The names of estimated moments that are known, each with what it is in."""
    for value in found.values() if isinstance(found, dict) else found if isinstance(found, list) else ():
        yield from estimates_in(value)
    if isinstance(found, dict):
        yield from ((name, found) for name in NAMES if found.get(name))


def test_commands_show_estimates_with_their_ranges(work: Batch) -> None:
    one_more = ("enqueue", "--flow", "probe", "--dry-run", "--count", "3")
    shown = {
        ("stats",): 4, ("why", "p20"): 2, ("batch", "show", "b1"): 1, ("batch", "list"): 1,
        ("limit", "fleet"): 1, ("bulk", "list"): 0, one_more: 1,
    }  # fmt: skip
    for line, at_least in shown.items():
        texts = [*ESTIMATED.finditer(re.sub(r"\s+", " ", queue(*line).out))]
        assert all(each["range"] for each in texts), (line, texts)
        out = queue(*line, "--json").out
        data = [json.loads(each) for each in out.splitlines()]
        named = [*estimates_in(data)]
        assert len(named) >= at_least, (line, queue(*line, "--json"))
        for name, found in named:
            assert found[f"{name}_p10"] <= found[name] <= found[f"{name}_p90"], (line, name, found)


def test_pages_show_estimates_with_their_ranges(work: Batch, staff: Callable[..., Client]) -> None:
    (bulk,) = BulkAction.objects.all()
    client = staff(*(f"view_{each}" for each in ("execution", "batch", "limit", "bulkaction", "queue")))
    waiting, fleet = Execution.objects.get(key="p20"), Limit.objects.get(name="fleet")
    pages = {
        reverse("admin:index"): 1, page("batch"): 0, page("batch", work.pk, view="change"): 1,
        page("limit", fleet.pk, view="change"): 2, page("execution", waiting.pk, view="change"): 2,
        page("bulkaction", bulk.pk, view="change"): 1,
    }  # fmt: skip
    for address, at_least in pages.items():
        shown = text_of(client.get(address))
        found = [*ESTIMATED.finditer(re.sub(r"<[^>]+>|\s+", " ", shown))]
        assert len(found) >= at_least, address
        assert all(each["range"] for each in found), (address, [each.group() for each in found])
    assert "(8 of 10: " in text_of(client.get(page("batch")))
