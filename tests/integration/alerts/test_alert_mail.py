"""Alerts by mail, against a server that takes, refuses, drops or drips."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.mail import EmailMessage

from queuemgr.base import process_state
from queuemgr.models import AlertNotice
from queuemgr.operations import alert_delivery, alert_mail
from tests.integration.alerts.conftest import Look, alarm
from tests.integration.alerts.mail_server import BEHAVIOURS, MailServer, mail_server
from tests.webhook_receiver import Receiver

ENOUGH = 30.0
"""Seconds that are not reached where a wait is bounded at all."""


@pytest.fixture
def mail(there: Receiver, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[MailServer]:
    """A server, to which alerts go; one that answers too slowly has half a second."""
    monkeypatch.setenv("SLUICE_ALERT_DESTINATIONS", f"ops=mailto:ops@example.org,pager={there.url}")
    process_state.reset_settings()
    monkeypatch.setattr(alert_delivery, "MOST_SECONDS", 0.5)
    with mail_server() as server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = server.server_address
        yield server
    for thread in threading.enumerate():
        if thread.name == "mail of an alert":
            thread.join(ENOUGH)


def test_a_mail_server_gets_each_message_once_with_its_id(
    mail: MailServer, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_delivery, "MOST_SECONDS", ENOUGH)  # on a busy machine too
    for _ in range(3):
        look(alarm(text="no worker is live"))
    (message,) = mail.taken
    assert "Subject: [Sluicegate] BAD firing: no worker is live" in message
    assert "Auto-Submitted: auto-generated" in message
    notice = AlertNotice.objects.get(destination="ops")
    assert f"Message-ID: <alert_{notice.alert_id}_1_{notice.at:%Y%m%d%H%M%S%f}@sluicegate>" in message


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_a_mail_server_that_takes_nothing_is_named_tried_again_and_holds_up_no_other(
    mail: MailServer, look: Look, there: Receiver, behaviour: str
) -> None:
    mail.behaviour = behaviour
    look(alarm())
    look(alarm())
    notice = AlertNotice.objects.get(destination="ops")
    assert (notice.attempts, notice.sent_at) == (1, None) and notice.due_at
    assert "mail server" in notice.problem and "example.org" not in notice.problem
    assert [each.path for each in there.requests], "the webhook was called"


def test_a_process_has_one_mail_under_way(mail: MailServer, look: Look) -> None:
    """One that never ends leaves no second thread behind."""
    mail.behaviour = "drips"
    for number in range(3):
        look(*(alarm(kind, text=f"{kind} {number}") for kind in ("no worker", "workers gone")), seconds=4_000)
    notices = AlertNotice.objects.filter(destination="ops")
    assert "the mail server has not taken the message before" in {each.problem for each in notices}
    under_way = [each for each in threading.enumerate() if each.name == "mail of an alert"]
    assert len(under_way) == 1


def test_a_backend_that_never_answers_is_left_after_its_time(settings: Any) -> None:
    settings.EMAIL_BACKEND = f"{__name__}.Stuck"
    message: Any = type("Message", (), {"send": lambda self: _over.wait(ENOUGH)})()
    assert alert_mail.problem_of_sending(message, 0.05) == "the mail server took no message in 0.05 s"
    assert "before" in alert_mail.problem_of_sending(message, 0.05)
    _over.set()


def test_a_mail_that_has_no_thread_holds_up_none_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_more)
    for _ in range(2):
        said = alert_mail.problem_of_sending(EmailMessage("s"), 0.05)
        assert said == "the mail was not sent: can't start new thread"


_over = threading.Event()


class Stuck:
    def __init__(self, **options: Any) -> None:
        pass


@pytest.mark.parametrize(
    "text",
    ["<!channel> all", "<@U0123ABC> you", "@everyone", "@here", "[the pager](https://evil.example)",
     "<https://evil.example|the pager>", "&lt;!channel&gt;"],
)  # fmt: skip
def test_no_text_mentions_anybody_in_a_chat_or_links_under_another_name(text: str) -> None:
    shown = alert_delivery.as_chat_text(text)
    assert not {"<", ">"} & {*shown} and "](" not in shown
    assert all(after.startswith("\u200b") for after in shown.split("@")[1:])
    assert shown.replace("\u200b", "").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") == text
