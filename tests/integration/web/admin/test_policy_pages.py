"""Retry policies in the admin: seen before they are saved, never contradictory, and by whom they are."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from queuemgr.flows.flow import all_error_kinds
from queuemgr.flows.retry_policy import POLICIES
from queuemgr.models import AuditEntry, Limit, Queue, RetryPolicy
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows, retry_policies
from tests.integration.web.admin.admin_pages import limit_form, page, text_of

pytestmark = pytest.mark.django_db
ANN = Actor("ann", "command", "slow to recover")


@pytest.fixture(autouse=True)
def _rows() -> None:
    limit_rows.sync()


@pytest.fixture
def network() -> RetryPolicy:
    return RetryPolicy.objects.get(kind="network", phase="")


def test_a_preview_shows_the_waits_of_what_was_typed_and_saves_nothing(
    operator: Client, network: RetryPolicy
) -> None:
    typed = {"max_attempts": 4, "base": 7, "ceiling": 20, "jitter": 1, "reason": "x"}
    url = page("retrypolicy", network.pk, view="change")
    assert "Preview the waits" in text_of(operator.get(url))
    text = text_of(operator.post(url, {**typed, "_preview": "1"}))
    assert "7-8 s, 14-15 s, 20-21 s (not saved yet)" in text
    assert 'name="base" value="7' in text
    assert retry_policies.policy_for("network", "prep") == POLICIES["network"]
    assert not AuditEntry.objects.exists()
    text_of(operator.post(url, typed, follow=True))
    assert retry_policies.policy_for("network", "prep").base == 7


def test_a_new_override_is_previewed_with_what_it_takes_from_every_phase(operator: Client) -> None:
    typed = {"kind": "network", "phase": "wrap", "max_attempts": 3, "_preview": "1"}
    text = text_of(operator.post(page("retrypolicy", view="add"), typed))
    assert "5-10 s, 10-15 s (not saved yet)" in text
    assert not RetryPolicy.objects.filter(phase="wrap").exists()


def test_a_preview_of_an_invalid_policy_says_why(operator: Client, network: RetryPolicy) -> None:
    typed = {"max_attempts": 4, "base": 30, "ceiling": 20, "jitter": 1, "_preview": "1"}
    text = text_of(operator.post(page("retrypolicy", network.pk, view="change"), typed))
    assert "the ceiling at least base" in text
    assert "not saved yet" not in text


def test_the_list_says_who_changed_a_policy_last_and_how_many_retries_may_start(operator: Client) -> None:
    controls.edit_policy("network", "", ANN, max_attempts=9)
    controls.edit_policy("network", "", Actor("bob", "api"), max_attempts=8)
    controls.edit_policy("network", "prep", ANN, max_attempts=3)
    text = text_of(operator.get(page("retrypolicy")))
    rows = {str(r): r for r in operator.get(page("retrypolicy")).context["cl"].result_list}
    assert rows["network"].last_change.actor == "bob"
    assert rows["network in prep"].last_change.actor == "ann"
    assert rows["timeout"].last_change is None
    assert "retry budget: 0 of the last 0 starts were retries" in text
    assert "100 more may start now" in text


def test_the_list_of_policies_costs_one_query_however_many_were_changed(operator: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            text_of(operator.get(page("retrypolicy")))
        return len(captured)

    controls.edit_policy("network", "", ANN, max_attempts=9)
    few = queries()
    for kind in all_error_kinds():
        controls.edit_policy(kind, "prep", ANN, max_attempts=2)
    assert queries() == few


ODD = ("", "0", "1e400")
"""Together with another field; alone, every field of every form takes more (test_hostile_forms)."""


@pytest.mark.parametrize("first", ODD)
def test_no_values_however_odd_lead_to_an_error_page(
    operator: Client, network: RetryPolicy, first: str
) -> None:
    """An invalid value is reported beside its field, also where two contradict each other."""
    limit, queue = Limit.objects.get(name="host:*"), Queue.objects.get(name="prep.low")
    forms: list[tuple[str, dict[str, Any], tuple[str, str]]] = [
        (page("retrypolicy", network.pk, view="change"),
         {"max_attempts": 3, "base": 1, "ceiling": 9, "jitter": 0}, ("base", "ceiling")),
        (page("retrypolicy", view="add"),
         {"kind": "network", "phase": "prep", "max_attempts": 3}, ("base", "ceiling")),
        (page("retrypolicy", view="add"), {"kind": "timeout", "phase": "prep"},
         ("max_attempts", "jitter")),
        (page("limit", limit.pk, view="change"), limit_form(limit),
         ("max_running", "reserved_high")),
        (page("limit", view="add"), limit_form(name="host:a"), ("reserved_high", "max_running")),
        (page("limit", limit.pk, view="change"), limit_form(limit), ("daily_budget", "share")),
        (page("queue", queue.pk, view="change"), {}, ("max_pending", "reason")),
    ]  # fmt: skip
    for (url, sent, (one, other)), second in product(forms, ("2", "9" * 30, "inf")):
        response = operator.post(url, {**sent, one: first, other: second})
        assert response.status_code in (200, 302), (url, first, second)


@pytest.mark.parametrize("values", [{"base": float("nan")}, {"jitter": float("inf")}])
def test_an_unrepresentable_delay_is_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        controls.edit_policy("network", "", ANN, **values)
    assert retry_policies.policy_for("network", "prep") == POLICIES["network"]


def test_an_edit_made_invalid_by_a_concurrent_one_is_reported_on_the_form(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another's edit is stored after this form was checked, and before it is saved."""
    limit = Limit.objects.get(name="host:*")
    lower = partial(Limit.objects.filter(pk=limit.pk).update, max_running=2)
    monkeypatch.setattr(controls.limit_rows, "ensure", lower)
    sent = limit_form(limit, reserved_high=3)
    response = operator.post(page("limit", limit.pk, view="change"), sent, follow=True)
    assert "Not saved: reserved_high must be smaller" in text_of(response)
    assert not AuditEntry.objects.exists()
