"""What a person does about alerts: silence them, end a silence, send a test. Each is in the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from django.db import IntegrityError

from queuemgr.base import transaction
from queuemgr.base.errors import BadInput, StepFailed
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.payload_validation import check_text
from queuemgr.lifecycle.enqueue import check_horizon
from queuemgr.models import Alert, AlertSilence
from queuemgr.models.alerts import MAX_CODE
from queuemgr.operations import alert_delivery
from queuemgr.operations.alert_state import TEST as TEST_CODE
from queuemgr.operations.controls import Actor

SILENCE, UNSILENCE, TEST = "silence alerts", "end silence of alerts", "test alerts"


def silence(pattern: str, until: datetime, by: Actor) -> AlertSilence:
    """Send nothing of alarms whose code matches until then. Raises `BadInput` without a reason, and for a
    time that has passed or is years ahead."""
    now = database_now()
    check_text("pattern", pattern, MAX_CODE)
    if not by.reason.strip():
        raise BadInput("a silence needs a reason: who reads it later should know why nothing came")
    check_horizon("until", until)
    if until <= now:
        raise BadInput(f"{until:%Y-%m-%d %H:%M} UTC has passed: a silence ends later")
    with transaction.atomic():
        row = AlertSilence.objects.create(
            pattern=pattern, until=until, by=by.actor, reason=by.reason[:200], created_at=now
        )
        by.record(SILENCE, pattern, {}, {"silence": row.pk, "until": until.isoformat(timespec="seconds")})
    return row


def unsilence(silence_id: int, by: Actor) -> AlertSilence:
    """End a silence now: alarms that stand are sent. Raises `BadInput` for one that has ended."""
    now = database_now()
    with transaction.atomic():
        row = AlertSilence.objects.select_for_update().in_force(now).filter(pk=silence_id).first()
        if row is None:
            raise BadInput(f"there is no silence {silence_id} in force; see `queue alerts list`")
        before = {"silence": row.pk, "until": row.until.isoformat(timespec="seconds")}
        row.until = now
        row.save(update_fields=["until"])
        by.record(UNSILENCE, row.pattern, before, {"until": now.isoformat(timespec="seconds")})
    return row


class Tested(NamedTuple):
    """How a test went; `problem` is empty where it was taken."""

    destination: str
    kind: str
    place: str
    problem: str


def send_test(by: Actor, only: str = "") -> list[Tested]:
    """Send a test to each destination that this process knows, or to one, now. Raises `BadInput` where there
    is none."""
    known = [each for each in alert_delivery.destinations() if only in ("", each.name)]
    if not known:
        what = f"is called {only!r}" if only else "is stated"
        raise BadInput(f"no destination {what} in SLUICE_ALERT_DESTINATIONS of this process")
    message = alert_delivery.test_message(database_now(), by.actor)
    tested = []
    for each in known:
        problem = ""
        try:
            alert_delivery.send(each, message)
        except (StepFailed, BadInput) as error:
            problem = str(error)
        tested.append(Tested(each.name, each.kind.value, each.place, problem))
    by.record(TEST, only or "all", {}, {each.destination: each.problem or "accepted" for each in tested})
    return tested


def request_test(by: Actor) -> Alert:
    """Have a test sent to every destination by the worker that sends alerts, which knows them. Raises
    `BadInput` while one waits already."""
    now = database_now()
    try:
        with transaction.atomic():
            row = Alert.objects.create(
                code=TEST_CODE, level="note", text=f"a test by {by.actor}"[:500], since=now, seen_at=now
            )
            by.record(TEST, "all", {}, {"alert": row.pk})
    except IntegrityError:
        raise BadInput("a test waits already: the worker of the queue housekeeping sends it") from None
    return row
