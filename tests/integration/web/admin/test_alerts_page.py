"""The page of alerts: silences are made and ended there, and a test is asked for."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from queuemgr.models import Alert, AlertSilence, AuditEntry
from tests.integration.web.admin.admin_pages import text_of

pytestmark = pytest.mark.django_db
HOSTILE = "<script>alert(1)</script>"
PAGE = "/admin/queuemgr/webhook/alerts/"
SILENCE, TEST = f"{PAGE}silence/", f"{PAGE}test/"


def test_an_alarm_is_silenced_and_the_silence_ended_with_entries_in_the_audit_log(superuser: Client) -> None:
    now = timezone.now()
    Alert.objects.create(code=f"limit paused: {HOSTILE}", level="warn", text=HOSTILE, since=now, seen_at=now)
    shown = text_of(superuser.get(PAGE))
    assert HOSTILE not in shown and "nothing yet" in shown and f"{SILENCE}?pattern=limit+paused" in shown
    until = f"{now + timedelta(hours=2):%Y-%m-%dT%H:%M}"
    sent = {"pattern": "limit paused: *", "until": until, "reason": "they migrate"}
    assert superuser.post(SILENCE, sent)["Location"] == PAGE
    row = AlertSilence.objects.get()
    assert "they migrate" in text_of(superuser.get(PAGE))
    assert superuser.post(reverse("admin:alertsilence_end", args=[row.pk]))["Location"] == PAGE
    assert not AlertSilence.objects.in_force(timezone.now()).exists()
    actions = [*AuditEntry.objects.order_by("pk").values_list("action", "reason")]
    assert actions == [("silence alerts", "they migrate"), ("end silence of alerts", "")]


def test_bad_values_are_refused_in_the_form(superuser: Client) -> None:
    good = {"pattern": "x", "until": "2100-01-01T00:00", "reason": "y"}
    bad = [{"until": ""}, {"until": "2001-01-01T00:00"}, {}, {"until": "9999-12-31T23:59"}]
    for changed in (*bad, {"pattern": "x" * 5_000}, {"pattern": "a\x00b"}, {"reason": " "}):
        assert superuser.post(SILENCE, {**good, **changed}).context["form"].errors, changed
    assert not AlertSilence.objects.exists()


def test_one_test_is_asked_for_at_a_time(superuser: Client) -> None:
    answers = [superuser.post(TEST, {"reason": "new pager"}, follow=True) for _ in range(2)]
    assert [[each.level_tag for each in answer.context["messages"]] for answer in answers] == [
        ["success"], ["error"],
    ]  # fmt: skip
    assert Alert.objects.standing().count() == 1
