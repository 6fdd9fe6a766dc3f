"""Webhooks over the API: what is shown to whom, and what is changed."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from queuemgr.lifecycle.webhook_events import FLOW
from queuemgr.models import AuditEntry, Execution, IdempotencyRecord, Webhook
from queuemgr.operations import webhooks
from queuemgr.scheduling import limit_rows
from tests.integration.cli.commands import queue
from tests.integration.web.api.api_client import Api, api

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root", "sent")]
URL = "https://hooks.example/in?token=s3cret"


@pytest.fixture(autouse=True)
def _limits(sent: list[Any]) -> None:
    limit_rows.sync()


def made(caller: Api, name: str = "ops", **more: Any) -> Any:
    return caller.post("webhooks", {"webhook": name, "url": URL, **more})


def test_a_webhook_is_made_shown_edited_paused_tested_and_removed() -> None:
    caller = api()
    created = made(caller, flows=["shop.*", "probe"], events=["failed", "finished"], reason="asked for")
    assert created.status_code == 201, created.json()
    shown = caller.get("webhooks/ops").json()
    assert (shown["events"], shown["flows"]) == (["finished", "failed"], ["shop.*", "probe"])
    assert (shown["url"], shown["limit"]) == ("https://hooks.example/in?***", "webhook:hooks.example:443")
    edited = caller.patch("webhooks/ops", {"events": ["lost"], "secret_name": "other"}).json()
    assert (edited["events"], edited["secret"]) == (["lost"], "other")
    key = caller.post("webhooks/test", {"webhook": "ops"}).json()["key"]
    assert Execution.objects.get(flow=FLOW).key == key
    assert caller.post("webhooks/pause", {"webhook": "ops", "reason": "away"}).json()["state"] == "paused"
    assert caller.post("webhooks/test", {"webhook": "ops"}).status_code == 422
    assert caller.post("webhooks/resume", {"webhook": "ops"}).json()["state"] == "in force"
    (listed,) = caller.get("webhooks").json()["webhooks"]
    assert (listed["webhook"], listed["waiting"], listed["failed"]) == ("ops", 1, 0)
    assert caller.get("webhooks/ops").json()["deliveries"][0]["key"] == key
    assert caller.post("webhooks/remove", {"webhook": "ops"}).json() == {"removed": "ops"}
    assert not Webhook.objects.exists()
    entries = AuditEntry.objects.filter(target="ops")
    assert [entry.action for entry in entries.order_by("pk")] == [
        "add webhook", "edit webhook", "test webhook", "pause webhook", "resume webhook", "remove webhook",
    ]  # fmt: skip
    assert "s3cret" not in str([(entry.before, entry.after) for entry in entries])


WRONG: list[dict[str, Any]] = [
    {"url": "http://hooks.example/"},
    {"url": "https://user:pw@hooks.example/"},
    {"url": "https:///nowhere"},
    {"url": "https://hooks.example:99999/"},
    {"url": "ftp://hooks.example/"},
    {"url": "https://hooks.example/#part"},
    {"url": "https://höoks.example/"},
    {"url": "https://hooks.example/a b"},
    {"url": "http://10.0.0.1/", "allow_private": True},
    {"secret_name": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
    {"flows": ["a b", " "]},
    {"webhook": "Ops"},
    {"webhook": "a:b"},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_what_is_no_webhook_is_refused_and_quotes_no_secret(wrong: dict[str, Any]) -> None:
    refused = made(api(), **wrong)
    assert refused.status_code == 422
    assert "s3cret" not in refused.content.decode() and ":pw@" not in refused.content.decode()


QUOTES = ["'", '"', "<", ">", "`", "{", "\\", "^", "|"]
HIDDEN = [
    *(f"https://hooks.example/{quote}?token=s3cret" for quote in QUOTES),
    *(f"https://hooks.example/?a={quote}&token=s3cret" for quote in QUOTES),
    "HTTPS://hooks.example/?token=s3cret", "https://hooks.example?token=s3cret",
    "https://hooks.example//?token=s3cret", "https://hooks.example/?a?token=s3cret",
    "https://hooks.example/\u00e4?token=s3cret", "https://hooks.example/\n?token=s3cret",
    "https://hooks.example/?token=s3cret" + "x" * 2000, "https://hooks.example:x/?token=s3cret",
    "https://u:s3cret@hooks.example/", "http://hooks.example/?token=s3cret", "https://[/?token=s3cret",
]  # fmt: skip


@pytest.mark.parametrize("url", HIDDEN, ids=range(len(HIDDEN)))
def test_no_answer_page_or_row_but_its_own_shows_the_query_of_an_address(
    url: str, superuser: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Accepted or refused, by the API, the page or the command."""
    caller = api()
    shown = [made(caller, url=url).content.decode()]
    form = {"name": "page", "url": url, "flows": "*", "events": ["failed"], "reason": "why"}
    superuser.post(reverse("admin:queuemgr_webhook_add"), form)
    shown += [
        str(queue("webhook", "add", "typed", url)),
        str(queue("webhook", "edit", "typed", "--url", url)),
    ]
    for row in Webhook.objects.all():
        caller.patch(f"webhooks/{row.name}", {"url": "https://other.example/"})
        caller.post("webhooks/test", {"webhook": row.name})
        shown.append(superuser.get(reverse("admin:queuemgr_webhook_change", args=[row.pk])).content.decode())
    shown += [caller.get("webhooks").content.decode(), queue("webhook", "list").out, caplog.text]
    shown += [superuser.get(reverse("admin:queuemgr_webhook_changelist")).content.decode()]
    for model in (AuditEntry, IdempotencyRecord, Execution):
        shown += map(str, model.objects.values())
    for text in shown:
        assert "s3cret" not in text


def test_each_right_allows_its_own_and_no_more() -> None:
    made(api())
    reader = api("read", name="reader")
    assert reader.get("webhooks/ops").status_code == 200
    for path in ("pause", "resume", "test", "remove"):
        assert reader.post(f"webhooks/{path}", {"webhook": "ops"}).status_code == 403
    assert reader.patch("webhooks/ops", {"events": ["lost"]}).status_code == 403
    assert made(reader, "another").status_code == 403
    editor = api("read", "limits", name="editor")
    assert editor.patch("webhooks/ops", {"include_result": True}).status_code == 403
    Webhook.objects.update(include_result=True)
    assert editor.patch("webhooks/ops", {"url": "https://mine.example/"}).status_code == 403
    assert editor.patch("webhooks/ops", {"include_result": False}).status_code == 200
    operator = api("read", "operate", name="operator")
    assert operator.post("webhooks/pause", {"webhook": "ops"}).status_code == 200
    assert operator.post("webhooks/remove", {"webhook": "ops"}).status_code == 403


def test_nobody_has_sent_elsewhere_what_they_may_not_see_themselves() -> None:
    made(api())
    edits = ["view_webhook", "add_webhook", "change_webhook"]
    batches = {"events": ["batch_completed"]}
    blind: list[tuple[Api, dict[str, Any]]] = [
        (api("limits", name="no-scope"), {}),
        (api("read", "limits", name="no-work", permissions=edits), {}),
        (api("read", "limits", name="no-batches", permissions=[*edits, "view_execution"]), batches),
    ]
    for caller, fields in blind:
        assert made(caller, "mine", **fields).status_code == 403
        assert caller.patch("webhooks/ops", {"url": "https://mine.example/", **fields}).status_code == 403
    assert made(blind[2][0], "mine").status_code == 201
    assert Webhook.objects.get(name="ops").url == URL


def test_who_may_not_see_results_edits_no_webhook_that_has_just_begun_to_send_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between the look at the row and the edit."""
    made(api())
    editor, real = api("read", "limits", name="editor"), webhooks.edit

    def meanwhile(*args: Any, **values: Any) -> Any:
        Webhook.objects.update(include_result=True)
        return real(*args, **values)

    monkeypatch.setattr(webhooks, "edit", meanwhile)
    assert editor.patch("webhooks/ops", {"url": "https://mine.example/"}).status_code == 422
    assert Webhook.objects.get().url == URL


def test_there_are_a_hundred_webhooks_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "MOST", 2)
    caller = api()
    assert [made(caller, name).status_code for name in ("a", "b", "c")] == [201, 201, 422]


def test_nobody_has_words_of_their_own_signed() -> None:
    """By enqueueing a delivery, by a schedule or callback of the flow, or by editing what is delivered."""
    caller = api()
    made(caller)
    forged = {"webhook": "ops", "limit": "webhook:hooks.example:443", "id": "msg_1", "type": "x", "data": {}}
    mine = {"flow": FLOW, "key": "mine", "payload": forged}
    ways: list[tuple[str, dict[str, Any]]] = [
        ("executions", mine),
        ("executions/many", {"flow": FLOW, "items": [{"key": "mine", "payload": forged}]}),
        ("schedules", {"schedule": "s", "flow": FLOW, "timing": "every 5m", "payload": forged}),
        ("batches", {"name": "b", "flow": "probe", "on_complete": mine}),
    ]
    for path, body in ways:
        answer = caller.post(path, body)
        assert answer.status_code == 422 and "signed" in answer.content.decode(), answer.content
    assert not Execution.objects.filter(flow=FLOW).exists()
    caller.post("webhooks/test", {"webhook": "ops"})
    (delivery,) = Execution.objects.all()
    caller.post(f"executions/{delivery.pk}/cancel", {"reason": "x"})
    retried = caller.post(f"executions/{delivery.pk}/retry", {"payload": forged})
    assert retried.status_code == 422, retried.json()
    assert Execution.objects.get().payload == delivery.payload
