"""Sending alerts: each notice is claimed in the database, sent by one process, and recorded.

Alerts are sent by the periodic job itself and not as executions: a queue that is paused must be able to say
so. A process that ends between sending and recording leaves a claim that expires: the notice is sent again,
with the same id.
"""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.core.mail import EmailMessage
from django.db.models import Exists, OuterRef, Q

from queuemgr.base.alert_destinations import Destination, Kind, destinations_in
from queuemgr.base.config import alert_settings, webhook_settings
from queuemgr.base.errors import BadInput, StepFailed
from queuemgr.base.redaction import clean
from queuemgr.base.safe_text import one_line
from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.webhook_signature import keys_by_name, signatures
from queuemgr.flows.retry_policy import exponential
from queuemgr.models import AlertNotice
from queuemgr.operations.alert_mail import problem_of_sending
from queuemgr.steptools import webhook_request, webhook_target

MOST_ATTEMPTS, BASE, CEILING = 12, 15.0, 3_600.0
"""About five hours."""

SLICE_SECONDS = 3.0
"""How long one run sends: a worker with one slot runs the other periodic jobs behind it."""

MOST_SECONDS = 5.0
"""That a receiver may take, for the same reason."""

SLOW_SECONDS = 1.0
"""A destination that took so long to fail is left for the next run."""

CLAIM_SECONDS = 120.0
"""How long a claim holds: longer than any send takes."""


def destinations() -> tuple[Destination, ...]:
    """Those this process knows."""
    return destinations_in(alert_settings().alert_destinations.get_secret_value())


def send_due() -> int:
    """Send what is due, those tried least first; returns how many were sent."""
    known = {each.name: each for each in destinations()}
    began, sent = time.monotonic(), 0
    slow = set[str]()
    for pk, name in _due(database_now(), list(known)):
        if time.monotonic() - began > SLICE_SECONDS:
            break
        claim, before = database_now() + timedelta(seconds=CLAIM_SECONDS), time.monotonic()
        notice = None if name in slow else _claimed(pk, claim)
        if notice is not None:
            was_sent = _sent(notice, known[name], claim)
            sent += was_sent
            if not was_sent and time.monotonic() - before > SLOW_SECONDS:
                slow.add(name)
    return sent


def _due(now: datetime, names: list[str]) -> list[tuple[int, str]]:
    """One for each alert and destination: what was found first of it is sent first."""
    earlier = AlertNotice.objects.filter(
        alert=OuterRef("alert"), destination=OuterRef("destination"), pk__lt=OuterRef("pk"),
        due_at__isnull=False,
    )  # fmt: skip
    due = _free(now).filter(destination__in=names).exclude(Exists(earlier))
    return list(due.order_by("attempts", "pk").values_list("pk", "destination")[:500])


def _free(now: datetime) -> Any:
    unclaimed = Q(claimed_until=None) | Q(claimed_until__lte=now)
    return AlertNotice.objects.filter(unclaimed, due_at__lte=now)


def _claimed(pk: int, until: datetime) -> AlertNotice | None:
    """The notice, if it is now this process that sends it."""
    if not _free(database_now()).filter(pk=pk).update(claimed_until=until):
        return None
    return AlertNotice.objects.select_related("alert").get(pk=pk)


def _sent(notice: AlertNotice, to: Destination, claim: datetime) -> bool:
    """Send it and record how that went, if the claim still holds."""
    problem, waits = "", None
    try:
        send(to, message_of(notice))
    except (StepFailed, BadInput) as error:
        problem, waits = clean(str(error))[:300], getattr(error, "retry_after", None)
    now, attempts = database_now(), notice.attempts + 1
    due_at = None
    if problem and attempts < MOST_ATTEMPTS:
        delay = waits if waits is not None else exponential(BASE, CEILING, notice.attempts)
        due_at = now + timedelta(seconds=min(delay, CEILING))
    AlertNotice.objects.filter(pk=notice.pk, claimed_until=claim).update(
        attempts=attempts, problem=problem, due_at=due_at, claimed_until=None,
        sent_at=None if problem else now,
    )  # fmt: skip
    return not problem


Message = dict[str, str]
"""What is sent: `id`, `event`, `alert`, `level`, `text`, `at`, `since`."""


def message_of(notice: AlertNotice) -> Message:
    """Its id has the moment at which the change was found: ids of rows repeat after a restore."""
    return {
        "id": f"alert_{notice.alert_id}_{notice.number}_{notice.at:%Y%m%d%H%M%S%f}",
        "event": notice.event, "alert": notice.alert.code,
        "level": notice.level, "text": notice.text, "at": _moment(notice.at),
        "since": _moment(notice.alert.since),
    }  # fmt: skip


def test_message(at: datetime, by: str) -> Message:
    return {
        "id": f"alert_test_{at:%Y%m%d%H%M%S%f}", "event": "test", "alert": "test", "level": "note",
        "text": f"a test by {by}", "at": _moment(at), "since": _moment(at),
    }  # fmt: skip


def send(to: Destination, message: Message) -> None:
    """Raises `StepFailed` or `BadInput`, neither of which quotes the address."""
    if to.kind == Kind.MAIL:
        _mail(to, message)
    else:
        _post(to, message)


def sentence(message: Message) -> str:
    """One line for people."""
    if message["event"] == "resolved":
        return one_line(f"Resolved: {message['alert']} (since {message['since']}): {message['text']}")
    return one_line(f"{message['level'].upper()} {message['event']}: {message['text']}")


def as_chat_text(text: str) -> str:
    """As a chat shows it: no text of strangers mentions anybody, or links elsewhere under another name."""
    for mark, shown in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("@", "@\u200b"), ("](", "]\u200b(")):
        text = text.replace(mark, shown)
    return text


def _mail(to: Destination, message: Message) -> None:
    body = "\n".join(f"{name}: {one_line(value)}" for name, value in message.items())
    mail = EmailMessage(
        f"[Sluicegate] {sentence(message)[:150]}", f"{sentence(message)}\n\n{body}\n", to=[to.address],
        headers={"Message-ID": f"<{message['id']}@sluicegate>", "Auto-Submitted": "auto-generated"},
    )  # fmt: skip
    if problem := problem_of_sending(mail, _seconds()):
        raise StepFailed(webhook_target.FAILED, problem)


def _post(to: Destination, message: Message) -> None:
    may_be_private = webhook_settings().webhook_allow_private
    target = webhook_target.parse(to.address, allow_private=may_be_private)
    if to.kind == Kind.CHAT:
        body, headers = json.dumps({"text": as_chat_text(sentence(message))}).encode(), {}
    else:
        data = {name: message[name] for name in ("alert", "level", "text", "since")}
        stated = {"type": f"alert.{message['event']}", "timestamp": message["at"], "data": data}
        body = json.dumps(stated).encode()
        headers = _signed(to, message["id"], body)
    headers |= {"Content-Type": "application/json", "User-Agent": "Sluicegate"}
    addresses = partial(webhook_target.addresses_of, target, allow_private=may_be_private)
    answer = webhook_request.post(target, addresses, headers, body, _seconds())
    if not 200 <= answer.status < 300:
        said = f"{target.place} answered {answer.status}"
        raise StepFailed(webhook_target.FAILED, said, retry_after=answer.retry_after)


def _signed(to: Destination, message: str, body: bytes) -> dict[str, str]:
    keys = keys_by_name(webhook_settings().webhook_secrets.get_secret_value()).get(to.name)
    if not keys:
        raise BadInput(f"SLUICE_WEBHOOK_SECRETS of this process has no secret called {to.name}")
    now = int(time.time())
    return {
        "webhook-id": message, "webhook-timestamp": str(now),
        "webhook-signature": signatures(keys, message, now, body),
    }  # fmt: skip


def _seconds() -> float:
    return min(MOST_SECONDS, webhook_settings().webhook_seconds)


def _moment(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")
