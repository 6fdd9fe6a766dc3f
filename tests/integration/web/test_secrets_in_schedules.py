"""What a schedule's payload holds of the installation's secrets is shown by nothing, and stays where somebody
edits what was shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from queuemgr.base import redaction
from queuemgr.models import AuditEntry, Schedule
from queuemgr.operations import schedules
from queuemgr.operations.undo import undo
from tests.integration.cli.commands import queue
from tests.integration.web.admin.admin_pages import page
from tests.integration.web.api.api_client import ANN, api

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root", "sent")]

SECRET = "marked-secret-of-ours"
BEFORE = {"note": f"x {SECRET}", SECRET: [1.5], "link": "https://ann:hidden1@a.example/p", "tenant": "a"}


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(redaction, "_secrets", set())
    redaction.register_secret(SECRET)
    schedules.create("nightly", "probe", "every 1d", ANN, payload=BEFORE)
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def outputs(client: Client) -> Iterator[str]:
    row = Schedule.objects.get()
    yield client.get(reverse("admin:queuemgr_schedule_change", args=[row.pk])).content.decode()
    yield client.get(reverse("admin:queuemgr_schedule_changelist")).content.decode()
    for entry in AuditEntry.objects.all():
        yield client.get(page("auditentry", entry.pk, view="change"), follow=True).content.decode()
    yield api(name="reader").get("schedules/nightly").content.decode()
    yield from (queue("schedule", "show", "nightly", *how).out for how in ([], ["--json"]))
    yield str(list(AuditEntry.objects.values()))


def assert_nothing_is_shown(client: Client) -> None:
    for text in outputs(client):
        assert SECRET not in text
        assert "hidden1" not in text


def shown_on_its_page(client: Client) -> dict[str, Any]:
    answer = client.get(reverse("admin:queuemgr_schedule_change", args=[Schedule.objects.get().pk]))
    return dict(json.loads(answer.context["payload_form"].initial["payload"]))


def test_no_output_shows_a_secret_that_a_schedules_payload_holds(client: Client) -> None:
    assert_nothing_is_shown(client)


def test_what_was_masked_keeps_its_value_through_the_page_the_api_and_an_undo(client: Client) -> None:
    url = reverse("admin:schedule_payload", args=[Schedule.objects.get().pk])
    client.post(url, {"payload": json.dumps({**shown_on_its_page(client), "tenant": "b"})})
    assert Schedule.objects.get().payload == {**BEFORE, "tenant": "b"}
    robot = api()
    answered = robot.get("schedules/nightly").json()["payload"]
    assert robot.patch("schedules/nightly", {"payload": {**answered, "tenant": "c"}}).status_code == 200
    assert Schedule.objects.get().payload == {**BEFORE, "tenant": "c"}
    assert robot.patch("schedules/nightly", {"payload": {"new": "***"}}).status_code == 422
    assert_nothing_is_shown(client)
    undo(AuditEntry.objects.filter(action=schedules.EDIT_PAYLOAD).latest("pk"), ANN)
    assert Schedule.objects.get().payload == {**BEFORE, "tenant": "b"}


HOSTILE = (
    "[" * 100_000, '{"a":' * 50_000, "1" * 5000, '{"a": ' + "1" * 5000 + "}", "[]", '"', "NaN", '{"a": NaN}',
    '{"a": "\\u0000"}', '{"a": "\\ud800"}', '{"a": 1, "a": 2}', json.dumps({"a": "x" * 70_000}),
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_page_refuses_any_payload_that_no_row_can_hold(client: Client, text: str) -> None:
    pk = Schedule.objects.get().pk
    new = {
        "name": "x", "flow": "probe", "timing": "every 1h", "priority": 1, "misfire": "skip",
        "misfire_limit": 1, "overlap": "skip", "jitter": 0, "reason": "", "payload": text,
    }  # fmt: skip
    for url, sent in (
        (reverse("admin:schedule_payload", args=[pk]), {"payload": text}),
        (reverse("admin:queuemgr_schedule_add"), new),
    ):
        assert client.post(url, sent).status_code == 200
    assert Schedule.objects.get().payload == BEFORE
