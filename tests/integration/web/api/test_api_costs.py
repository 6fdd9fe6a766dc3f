"""Costs through the API: the same report as that of the command, for whoever may see usage."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Attempt, Execution, Outcome
from queuemgr.reporting.costs import DIMENSIONS
from queuemgr.scheduling import limit_rows
from tests.integration.web.api.api_client import api, problem

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root")]


@pytest.fixture
def used() -> Attempt:
    limit_rows.sync()
    enqueue("probe", "a", {})
    ended = database_now() - timedelta(hours=1)
    return Attempt.objects.create(
        lease_id=uuid4(), execution=Execution.objects.get(), phase="prep", step="probe", priority=1, cost=2,
        uses="usd=3100", limit_keys="openai:gpt tenant:acme", leased_at=ended, started_at=ended,
        ended_at=ended, outcome=Outcome.DONE,
    )  # fmt: skip


NAMES = {
    "tenant": "acme", "flow": "probe", "step": "prep/probe", "model": "openai:gpt", "limit": "openai:gpt",
    "batch": "", "execution": "probe/a",
}  # fmt: skip


@pytest.mark.parametrize("by", DIMENSIONS)
def test_costs_are_whole_numbers_with_the_scale_of_their_meter(by: str, used: Attempt) -> None:
    found = api().get(f"costs?by={by}&since=2h").json()
    row, *_ = found["rows"]
    assert row.pop(by) == NAMES.get(by, f"{used.ended_at:%Y-%m-%d}")
    number = {"execution_id": used.execution_id} if by == "execution" else {}
    assert row == {**number, "attempts": 1, "used": {"requests": 2, "usd": 3_100}}
    assert found["total"] == {"attempts": 1, "used": {"requests": 2, "usd": 3_100}}
    assert (found["scales"], found["cut_off_before"]) == ({"usd": 1_000_000, "requests": 1}, None)
    assert api(name="other").get(f"costs?by={by}&since=30min").json()["rows"] == []


@pytest.mark.parametrize(
    "query", ["by=colour", "since=someday", "meter=coins", "zone=Mars", "rows=0", "since=1h&until=2h", "x=1"]
)
def test_what_cannot_be_reported_is_refused(query: str, used: Attempt) -> None:
    assert problem(api().get(f"costs?{query}"), "invalid")["detail"]


@pytest.mark.parametrize(
    ("by", "held", "missing"),
    [
        ("tenant", "view_execution", "view_allowanceusage"),
        ("execution", "view_allowanceusage", "view_execution"),
        ("batch", "view_allowanceusage", "view_batch"),
    ],
)
def test_costs_ask_for_the_permission_to_see_usage_and_what_it_is_by(
    by: str, held: str, missing: str, used: Attempt
) -> None:
    refused = problem(api(permissions=(held,)).get(f"costs?by={by}"), "permission-missing")
    assert refused["permission"] == f"queuemgr.{missing}"
    assert api("enqueue", name="no").get("costs").status_code == 403
