"""The pages of webhooks: what they show, and what a person with the right may do there."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from queuemgr.lifecycle.webhook_events import FLOW
from queuemgr.models import AuditEntry, Execution, Webhook
from queuemgr.operations import webhooks
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root", "sent")]
LIST = "admin:queuemgr_webhook_changelist"
URL = "https://hooks.example/in?token=s3cret"


@pytest.fixture
def row() -> Webhook:
    limit_rows.sync()
    return webhooks.add("ops", URL, Actor("ann", "test"), description="on call", events="failed lost")


def page_of(client: Client, row: Webhook) -> str:
    return client.get(reverse("admin:queuemgr_webhook_change", args=[row.pk])).content.decode()


def act(client: Client, row: Webhook, what: str, **posted: Any) -> int:
    return client.post(
        reverse(f"admin:webhook_{what}", args=[row.pk]), {"reason": "because", **posted}
    ).status_code


def fields(**changed: Any) -> dict[str, Any]:
    return {"flows": "*", "events": ["failed"], "secret_name": "", "description": "", **changed}


def test_the_list_and_the_page_show_it_and_no_secret(superuser: Client, row: Webhook) -> None:
    webhooks.send_test("ops", Actor("ann", "test"))
    listed, page = superuser.get(reverse(LIST)).content.decode(), page_of(superuser, row)
    for text in (listed, page):
        assert "https://hooks.example/in?***" in text
        assert "s3cret" not in text
    assert "on call" in page and "failed, lost of *" in page
    assert Execution.objects.get(flow=FLOW).key in page


def test_a_person_adds_one(superuser: Client) -> None:
    posted = fields(name="ops", url="https://hooks.example/", reason="asked for")
    answer = superuser.post(reverse("admin:queuemgr_webhook_add"), posted)
    assert answer.status_code == 302, answer.content.decode()
    made = Webhook.objects.get()
    assert (made.name, made.events, made.created_at is None) == ("ops", "failed", False)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor, entry.reason) == ("add webhook", "root", "asked for")


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "http://hooks.example/"}, {"name": "No Name"}, {"events": []}, {"flows": " "},
        {"secret_name": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_webhook_is_refused_beside_its_field(superuser: Client, wrong: dict[str, Any]) -> None:
    posted = fields(**{"name": "ops", "url": "https://hooks.example/", **wrong})
    assert superuser.post(reverse("admin:queuemgr_webhook_add"), posted).status_code == 200
    assert not Webhook.objects.exists()


def test_only_who_may_see_payloads_has_results_sent(staff: Any, row: Webhook) -> None:
    client = staff("view_webhook", "change_webhook", "view_execution")
    assert act(client, row, "edit", **fields(include_result="on")) == 403
    assert act(client, row, "edit", **fields(url="https://mine.example/")) == 302
    Webhook.objects.update(include_result=True)
    assert act(client, row, "edit", **fields(include_result="on", url="https://yours.example/")) == 403
    assert Webhook.objects.get().url == "https://mine.example/"


@pytest.mark.parametrize("held", [(), ("view_execution",), ("view_execution", "view_batch")])
def test_only_who_sees_work_and_batches_has_them_sent_elsewhere(
    staff: Any, row: Webhook, held: tuple[str, ...]
) -> None:
    client = staff("view_webhook", "add_webhook", "change_webhook", *held)
    for number, (events, needed) in enumerate([(["failed"], 1), (["failed", "batch_completed"], 2)]):
        posted = fields(url=f"https://mine{number}.example/", events=events)
        expected = 302 if len(held) >= needed else 403
        assert act(client, row, "edit", **posted) == expected
        posted |= {"name": f"mine-{number}", "reason": "why"}
        assert client.post(reverse("admin:queuemgr_webhook_add"), posted).status_code == expected


def test_a_person_tests_pauses_resumes_edits_and_removes_it_and_says_why(
    superuser: Client, row: Webhook
) -> None:
    assert act(superuser, row, "test") == 302
    assert Execution.objects.filter(flow=FLOW).count() == 1
    act(superuser, row, "pause")
    assert "paused by root: because" in page_of(superuser, row)
    act(superuser, row, "resume")
    act(superuser, row, "edit", **fields(flows="shop.*", events=["cancelled", "finished"]))
    edited = Webhook.objects.get()
    assert (edited.flows, edited.events, edited.url) == ("shop.*", "finished cancelled", URL)
    act(superuser, row, "edit", **fields(url="http://hooks.example/"))  # refused, and said so
    assert Webhook.objects.get().url == URL
    act(superuser, row, "edit", **fields(url="https://other.example/"))
    assert Webhook.objects.get().url == "https://other.example/"
    act(superuser, row, "remove")
    assert not Webhook.objects.exists()
    entries = AuditEntry.objects.filter(source="admin").order_by("pk").values_list("action", "reason")
    assert list(entries) == [
        (f"{action} webhook", "because") for action in ("test", "pause", "resume", "edit", "edit", "remove")
    ]
