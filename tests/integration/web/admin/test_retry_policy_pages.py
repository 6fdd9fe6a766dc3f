"""Pages of retry policies: edited with a reason, refused where impossible, closed to who may only look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from queuemgr.base.errors import BadInput
from queuemgr.flows.retry_policy import Policy
from queuemgr.models import AuditEntry, RetryPolicy
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows, retry_policies
from tests.integration.web.admin.admin_pages import page, text_of

pytestmark = pytest.mark.django_db
ANN = Actor("ann", "test", "because")


@pytest.fixture(autouse=True)
def _rows(sent: list[Any]) -> None:
    limit_rows.sync()


def page_of(client: Client, row: Any) -> str:
    return text_of(client.get(page(row._meta.model_name, row.pk, view="change")))


def test_a_policy_is_edited_with_its_reason(operator: Client) -> None:
    policy = RetryPolicy.objects.get(kind="network", phase="")
    posted = {"max_attempts": 2, "base": 5, "ceiling": 600, "jitter": 5, "reason": "it is down"}
    url = page("retrypolicy", policy.pk, view="change")
    text_of(operator.post(url, posted, follow=True))
    assert retry_policies.policy_for("network", "prep").max_attempts == 2
    change = AuditEntry.objects.get()
    assert (change.target, change.reason) == ("network", "it is down")
    assert (change.before, change.after) == ({"max_attempts": 6}, {"max_attempts": 2})


def test_empty_fields_of_a_policy_for_one_phase_come_from_the_general_one(operator: Client) -> None:
    posted = {"kind": "network", "phase": "prep", "max_attempts": 9, "base": "", "ceiling": "",
              "jitter": "", "reason": "flaky line"}  # fmt: skip
    text_of(operator.post(page("retrypolicy", view="add"), posted, follow=True))
    assert retry_policies.policy_for("network", "prep") == Policy(
        9, 5, 600, 5, "connection refused, reset or cut off"
    )
    assert retry_policies.policy_for("network", "wrap").max_attempts == 6
    assert (AuditEntry.objects.get().target, AuditEntry.objects.get().reason) == (
        "network in prep", "flaky line",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("posted", "error"),
    [
        ({"kind": "netwrok"}, "no error kind is called &#x27;netwrok&#x27;; there are: bad_answer, "),
        ({"phase": "nowhere"}, "no phase is called &#x27;nowhere&#x27;; there are: "),
        ({"phase": ""}, "already exists"),
        ({"ceiling": 1}, "the ceiling at least base"),
    ],
)
def test_an_impossible_policy_is_refused(operator: Client, posted: dict[str, Any], error: str) -> None:
    given = {"kind": "network", "phase": "prep", "max_attempts": 3, "reason": ""}
    text = text_of(operator.post(page("retrypolicy", view="add"), {**given, **posted}))
    assert error in text
    assert not AuditEntry.objects.exists()


def test_a_policy_for_one_phase_can_be_deleted_and_a_general_one_cannot(operator: Client) -> None:
    row = controls.edit_policy("network", "prep", ANN, max_attempts=2)
    stays = RetryPolicy.objects.get(kind="network", phase="")
    url = page("retrypolicy", stays.pk, view="delete")
    assert operator.post(url, {"post": "yes"}).status_code == 403
    with pytest.raises(BadInput, match="stays"):
        controls.delete_policy("network", "", ANN)
    text_of(operator.post(page("retrypolicy", row.pk, view="delete"), {"post": "yes"}, follow=True))
    assert not RetryPolicy.objects.filter(phase="prep").exists()
    change = AuditEntry.objects.order_by("-pk")[0]
    assert (change.actor, change.action, change.target) == (
        "sam", "delete retry policy", "network in prep",
    )  # fmt: skip
    assert change.before["max_attempts"] == 2


def test_a_policy_is_neither_edited_nor_deleted_by_who_may_only_look(staff: Callable[..., Client]) -> None:
    viewer = staff("view_retrypolicy")
    row = controls.edit_policy("network", "prep", ANN, max_attempts=2)
    assert "5-10 s" in page_of(viewer, row)
    for view, posted in (("change", {"max_attempts": 9}), ("delete", {"post": "yes"})):
        assert viewer.post(page("retrypolicy", row.pk, view=view), posted).status_code == 403
    assert viewer.get(page("retrypolicy", view="add")).status_code == 403
