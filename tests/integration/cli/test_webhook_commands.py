"""`queue webhook`."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from queuemgr.base.webhook_signature import keys_by_name
from queuemgr.lifecycle.webhook_events import FLOW
from queuemgr.models import AuditEntry, Execution, Limit, Webhook

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sent")]


def queue(*arguments: str) -> str:
    out = StringIO()
    call_command("queue", "webhook", *arguments, stdout=out)
    return out.getvalue()


def test_a_webhook_is_added_listed_edited_paused_tested_and_removed() -> None:
    queue("add", "ops", "https://hooks.example/in?k=s3cret", "--flow", "shop.*", "--event", "failed",
          "--event", "finished", "--reason", "on call")  # fmt: skip
    assert Limit.objects.get(name="webhook:*").max_running == 2
    (listed,) = [json.loads(line) for line in queue("list", "--json").splitlines()]
    assert (listed["webhook"], listed["events"], listed["state"]) == (
        "ops",
        ["finished", "failed"],
        "in force",
    )
    queue("edit", "ops", "--url", "https://hooks.example/v2", "--event", "cancelled")
    assert (Webhook.objects.get().url, Webhook.objects.get().events) == (
        "https://hooks.example/v2",
        "cancelled",
    )
    key = json.loads(queue("test", "ops", "--json"))["key"]
    assert Execution.objects.get(flow=FLOW).key == key
    queue("pause", "ops", "--minutes", "5", "--reason", "they migrate")
    assert "they migrate" in json.loads(queue("show", "ops", "--json"))["paused"]
    queue("resume", "ops")
    assert "Last deliveries" in queue("show", "ops") and key[:20] in queue("show", "ops")
    assert "hooks.example" in queue("list")
    queue("remove", "ops")
    assert not Webhook.objects.exists()
    actions = AuditEntry.objects.order_by("pk").values_list("action", flat=True)
    assert [action.partition(" ")[0] for action in actions] == [
        "add", "edit", "test", "pause", "resume", "remove",
    ]  # fmt: skip
    assert "s3cret" not in str(list(AuditEntry.objects.values()))


def test_a_secret_is_one_that_the_setting_takes() -> None:
    secret = queue("secret").strip()
    assert len(keys_by_name(f"ops={secret}")["ops"][0]) == 32
    assert secret != queue("secret").strip()


@pytest.mark.parametrize(
    "wrong",
    [
        ("add", "ops", "http://hooks.example/"),
        ("add", "Ops", "https://hooks.example/"),
        ("add", "ops", "https://hooks.example/", "--allow-private"),
        ("pause", "none"),
        ("test", "none"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(wrong: Any) -> None:
    with pytest.raises(CommandError, match=r"\w+"):
        queue(*wrong)
    assert not Webhook.objects.exists()
