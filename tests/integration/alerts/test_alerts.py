"""Alarms are sent once for each change, by e-mail, webhook and chat, whatever fails."""

from __future__ import annotations

import json
import threading
from datetime import timedelta

import pytest
from django.core import mail

from queuemgr.base import process_state
from queuemgr.base.errors import BadInput
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import Alert, AlertNotice, AuditEntry
from queuemgr.operations import alert_delivery, alert_state, alerts
from queuemgr.operations.controls import Actor
from tests.integration.alerts.conftest import Look, alarm
from tests.webhook_receiver import SECRET, Receiver

ANN = Actor("ann", "test", "migration")


def events(there: Receiver) -> list[str]:
    return [each.json["type"] for each in there.requests]


def test_an_alarm_is_sent_once_until_it_changes_and_its_end_is_sent(there: Receiver, look: Look) -> None:
    look(alarm(text="3 wait"))
    assert events(there) == []  # it may pass by itself
    look(alarm(text="4 wait"))
    look(alarm(text="5 wait"))
    assert events(there) == ["alert.firing"]
    assert there.requests[0].is_signed_with(SECRET)
    assert there.requests[0].json["data"] == {
        "alert": "no worker", "level": "bad", "text": "4 wait",
        "since": there.requests[0].json["data"]["since"],
    }  # fmt: skip
    look(alarm(text="6 wait", level="warn"))
    look(alarm(text="6 wait", level="warn", fact="another reason"))
    assert events(there) == ["alert.firing", "alert.changed", "alert.changed"]
    look(seconds=30)
    assert len(there.requests) == 3  # it may come back
    look(seconds=31)
    assert events(there)[3:] == ["alert.resolved"]
    look()
    assert len(there.requests) == 4
    assert len({each.id for each in there.requests}) == 4


def test_an_alarm_that_passes_soon_is_not_sent(there: Receiver, look: Look) -> None:
    look(alarm())
    look(seconds=120)
    assert events(there) == [] and Alert.objects.standing().count() == 0


def test_an_alarm_that_comes_back_is_sent_again(there: Receiver, look: Look) -> None:
    for _ in range(2):
        look(alarm())
        look(alarm())
        look()
    assert events(there) == ["alert.firing", "alert.resolved"] * 2


def test_what_a_receiver_refuses_is_sent_again_with_the_same_id_and_in_order(
    there: Receiver, look: Look
) -> None:
    there.answers = [500, 302, 500]
    look(alarm())
    look(alarm())
    assert "answered 500" in AlertNotice.objects.get().problem
    look(alarm(), seconds=20)
    look(seconds=100)  # resolved, which waits for what came before it
    look(seconds=200)
    look(seconds=200)
    assert events(there) == ["alert.firing"] * 4 + ["alert.resolved"]
    assert len({each.id for each in there.requests[:4]}) == 1
    assert not AlertNotice.objects.filter(sent_at=None).exists()


def test_a_receiver_that_is_down_or_slow_is_tried_twelve_times(
    there: Receiver, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_WEBHOOK_SECONDS", "0.1")
    monkeypatch.setenv("SLUICE_ALERT_DESTINATIONS", f"pager={there.url},down=http://127.0.0.1:9/")
    monkeypatch.setenv("SLUICE_WEBHOOK_SECRETS", f"pager={SECRET},down={SECRET}")
    process_state.reset_settings()
    there.answers = ["stall"]
    look(alarm())
    look(alarm())
    slow = AlertNotice.objects.get(destination="pager")
    assert "gave no answer within 0.1 s" in slow.problem and str(there.port) in slow.problem
    for _ in range(13):
        look(alarm(), seconds=4_000)
    down = AlertNotice.objects.get(destination="down")
    assert (down.attempts, down.due_at, down.sent_at) == (12, None, None)
    assert AlertNotice.objects.get(destination="pager").sent_at


def test_a_process_that_ends_between_sending_and_recording_leaves_it_to_the_next_one(
    there: Receiver, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    send = alert_delivery.send
    monkeypatch.setattr(alert_delivery, "send", lambda *what: (send(*what), kill()))
    look(alarm())
    with pytest.raises(Killed):
        look(alarm())
    monkeypatch.setattr(alert_delivery, "send", send)
    look(alarm(), seconds=60)
    assert len(there.requests) == 1  # the claim of the one that ended holds
    look(alarm(), seconds=61)
    assert events(there) == ["alert.firing"] * 2 and len({each.id for each in there.requests}) == 1


@pytest.mark.only_on("postgres", why="needs connections that do not wait for each other")
@pytest.mark.django_db(transaction=True)
def test_of_many_processes_that_look_at_once_one_sends(there: Receiver, transactional_db: None) -> None:
    from django.db import connection  # each thread has its own

    start, moment = threading.Barrier(6), database_now()
    alert_state.keep([alarm()], moment - timedelta(seconds=61))

    def run() -> None:
        try:
            start.wait(60)
            alert_state.keep([alarm(), alarm("other")], moment)
            alert_delivery.send_due()
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    alert_delivery.send_due()
    assert events(there) == ["alert.firing"]
    assert Alert.objects.count() == 2


def test_nothing_is_sent_of_what_is_silenced_until_the_silence_ends(there: Receiver, look: Look) -> None:
    row = alerts.silence("no *", database_now() + timedelta(hours=2), ANN)
    for _ in range(3):
        look(alarm(), alarm("breaker open", which="a"))
    assert [each.json["data"]["alert"] for each in there.requests] == ["breaker open: a"]
    alerts.unsilence(row.pk, ANN)
    alert_state.AlertSilence.objects.update(until=database_now() - timedelta(days=1))
    look(alarm(), alarm("breaker open", which="a"))
    assert [each.json["data"]["alert"] for each in there.requests][1:] == ["no worker"]
    assert [entry.action for entry in AuditEntry.objects.order_by("pk")] == [alerts.SILENCE, alerts.UNSILENCE]
    with pytest.raises(BadInput, match="no silence"):
        alerts.unsilence(row.pk, ANN)


@pytest.mark.parametrize(
    ("pattern", "ahead", "by", "said"),
    [
        ("x", 1, Actor("ann", "test"), "needs a reason"),
        ("x", -1, ANN, "has passed"),
        ("x", 1_000_000, ANN, "ten years"),
        ("", 1, ANN, "characters"),
    ],
)
def test_a_silence_that_makes_no_sense_is_refused(
    db: None, pattern: str, ahead: int, by: Actor, said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        alerts.silence(pattern, database_now() + timedelta(hours=ahead), by)
    assert not AuditEntry.objects.exists()


def test_mail_and_chat_get_a_sentence(
    there: Receiver, look: Look, mailed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_ALERT_DESTINATIONS", f"ops=mailto:ops@example.org,chat=chat+{there.url}")
    process_state.reset_settings()
    hostile = alarm(text="paused by ann: \r\nBcc: eve@example.org \x1b[2J")
    look(hostile)
    look(hostile)
    look()
    assert [json.loads(each.body)["text"].split(":")[0] for each in there.requests] == [
        "BAD firing", "Resolved",
    ]  # fmt: skip
    first, second = mail.outbox
    assert first.subject.startswith("[Sluicegate] BAD firing: paused by ann") and first.to == [
        "ops@example.org"
    ]
    assert "\n" not in first.subject and "\x1b" not in first.body
    assert "webhook-signature" not in there.requests[0].headers
    assert first.extra_headers["Message-ID"] != second.extra_headers["Message-ID"]


def test_a_mail_server_that_is_away_is_a_sentence(
    there: Receiver, look: Look, settings: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_ALERT_DESTINATIONS", "ops=mailto:secret@example.org")
    process_state.reset_settings()
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"  # type: ignore[attr-defined]  # of pytest-django
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 9  # type: ignore[attr-defined]  # as above
    tested = alerts.send_test(ANN)
    assert "the mail server took no message" in tested[0].problem and "secret" not in str(tested)


def test_a_test_says_how_it_went_and_shows_no_address(there: Receiver, db: None) -> None:
    there.answers = [404]
    assert "answered 404" in alerts.send_test(ANN)[0].problem
    assert alerts.send_test(ANN, "pager")[0].problem == ""
    assert events(there) == ["alert.test"] * 2
    with pytest.raises(BadInput, match="no destination is called 'other'"):
        alerts.send_test(ANN, "other")
    recorded = str([entry.after for entry in AuditEntry.objects.all()])
    assert "accepted" in recorded and "/hooks" not in recorded


def test_a_test_that_a_page_asks_for_is_sent_by_the_worker(there: Receiver, look: Look) -> None:
    alerts.request_test(ANN)
    with pytest.raises(BadInput, match="waits already"):
        alerts.request_test(ANN)
    look()
    look()
    assert events(there) == ["alert.test"] and not Alert.objects.standing().exists()
