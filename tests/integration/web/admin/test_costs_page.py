"""The page of costs: the report of the command as a table with bars, for whoever may see usage."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Attempt, Execution, Outcome
from queuemgr.reporting.costs import DIMENSIONS
from tests.integration.web.admin.admin_pages import text_of

pytestmark = pytest.mark.django_db
HOSTILE = "tenant:<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def _used(sent: list[Any]) -> None:
    enqueue("probe", "a", {})
    for hours, keys, usd in ((1, "openai:gpt tenant:acme", 250_000), (2, HOSTILE, 3_100), (50, "", 1)):
        ended = database_now() - timedelta(hours=hours)
        Attempt.objects.create(
            lease_id=uuid4(), execution=Execution.objects.get(), phase="prep", step="probe", priority=1,
            cost=2, uses=f"usd={usd}", limit_keys=keys, leased_at=ended, started_at=ended, ended_at=ended,
            outcome=Outcome.DONE,
        )  # fmt: skip


def costs(client: Client, name: str = "costs", **query: str) -> str:
    return text_of(client.get(reverse(f"admin:{name}"), query))


def test_the_page_shows_decimal_amounts_with_a_bar_for_each_and_the_total(operator: Client) -> None:
    text = costs(operator)
    assert '>acme</a> <a class="sg-act"' in text and ">0.25</td>" in text and ">0.0031</td>" in text
    assert ">0.2531</td>" in text, "the total"
    assert 'width="120" height="10"' in text, "the most has the longest bar"
    assert ">USD compared</th>" in text and ">Requests</th>" in text
    assert "<script>alert" not in text
    assert ">0.253101</td>" in costs(operator, since="3d")


@pytest.mark.parametrize("by", DIMENSIONS)
def test_what_it_is_by_and_the_time_are_chosen_in_the_address(by: str, operator: Client) -> None:
    text = costs(operator, by=by, since="90min", meter="usd")
    assert f"<option selected>{by}</option>" in text and "<option selected>usd</option>" in text
    assert ">0.25</td>" in text and ">0.0031</td>" not in text
    assert ("/execution/" in text) or by != "execution", "linked to its page"


@pytest.mark.parametrize(
    ("by", "limit"), [("tenant", "tenant:acme"), ("limit", "openai:gpt"), ("model", "openai:gpt")]
)
def test_what_has_allowances_leads_to_them_and_to_what_if(by: str, limit: str, operator: Client) -> None:
    text = costs(operator, by=by)
    assert text.count(f'/limit/named/?name={limit.replace(":", "%3A")}"') == 1
    assert text.count(f'/limit/named/?name={limit.replace(":", "%3A")}#what-if"') == 1


def test_days_are_columns_of_a_chart_with_those_on_which_nothing_was_used(operator: Client) -> None:
    text = costs(operator, by="day")
    assert "USD by day, at most 0.25" in text
    newest, oldest = (database_now() - timedelta(hours=hours) for hours in (1, 50))
    days = (newest.date() - oldest.date()).days + 1
    assert 3 <= days <= text.count("<title>20") <= days + 1, "of which some have nothing"
    assert ": 0.00</title>" in text
    assert "<figure" not in costs(operator, by="tenant")


def test_what_cannot_be_understood_is_said_beside_the_usual_report(operator: Client) -> None:
    text = costs(operator, since="last week")
    assert "&#x27;last week&#x27; is not a time; write 2026" in text and ">0.2531</td>" in text
    assert operator.get(reverse("admin:costs_csv"), {"since": "last week"}).status_code == 400


def test_the_file_has_what_the_page_has(operator: Client) -> None:
    response = operator.get(reverse("admin:costs_csv"), {"by": "tenant", "since": "2d"})
    assert response["Content-Disposition"] == 'attachment; filename="costs-by-tenant.csv"'
    lines = response.content.decode().splitlines()
    assert lines[:2] == ['"tenant","attempts","usd","requests"', '"acme",1,0.25,2']


@pytest.mark.parametrize(
    ("held", "by", "status"),
    [
        (("view_allowanceusage",), "tenant", 200), (("view_execution",), "tenant", 403),
        (("view_allowanceusage",), "execution", 403),
        (("view_allowanceusage", "view_execution"), "execution", 200),
        (("view_allowanceusage",), "batch", 403),
    ],
)  # fmt: skip
def test_costs_are_shown_to_whoever_may_see_usage_and_what_it_is_by(
    held: tuple[str, ...], by: str, status: int, staff: Callable[..., Client]
) -> None:
    client = staff(*held)
    for page in ("costs", "costs_csv"):
        assert client.get(reverse(f"admin:{page}"), {"by": by}).status_code == status
