"""What a person does to webhooks: add, edit, pause, resume, remove, test; the admin, the commands and the API
call these.

Every function takes `by`: who acts, through what, and why, for the audit log. It has addresses without their
query, which may be a secret of the receiver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from uuid import uuid4

from queuemgr.base import transaction
from queuemgr.base.after_commit import after_commit
from queuemgr.base.config import webhook_settings
from queuemgr.base.errors import BadInput
from queuemgr.base.redaction import masked
from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.webhook_signature import NAME
from queuemgr.flows.payload_validation import check_text
from queuemgr.lifecycle import webhook_events
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.webhook_events import Delivery
from queuemgr.models import Limit, Webhook, WebhookEvent
from queuemgr.models.webhooks import MAX_URL
from queuemgr.operations import named_rows
from queuemgr.operations.controls import ABSENT, Actor
from queuemgr.steptools import webhook_target

FIELDS = ("url", "flows", "events", "secret_name", "allow_private", "include_result", "description")
"""What a person may set."""

ADD, REMOVE, TEST = "add webhook", "remove webhook", "test webhook"

MOST = 100
"""Webhooks: each end of work is compared with every one, in its transaction."""

AT_ONCE: Mapping[str, int] = {f"{webhook_target.LIMIT}*": 2, "webhooks": 10}
"""Deliveries that may run at once, to a host and to all of them: limits that the first webhook makes."""


def find(name: str) -> Webhook:
    """The webhook of this name. Raises `BadInput`, which lists those with a similar one."""
    return named_rows.find(Webhook, name)


def add(name: str, url: str, by: Actor, **values: Any) -> Webhook:
    """Make a webhook, notified of what ends from now on. Raises `BadInput`."""
    row = Webhook(name=name, created_at=database_now(), **checked({"url": url, **values}))
    with transaction.atomic():
        check_new(name, row.url, row.allow_private)
        row.save()
        for limit, most in AT_ONCE.items():
            Limit.objects.get_or_create(name=limit, defaults={"max_running": most})
        by.record(ADD, name, {}, _shown_fields(row))
    _changed()
    return row


def check_new(name: str, url: str, allow_private: bool) -> None:
    """Raise `BadInput` for a name that cannot be taken, and for an address that cannot be notified."""
    if not NAME.fullmatch(name):
        raise BadInput(f"webhook {name[:80]!r}: a name has lower-case letters, digits, _ . -, at most 64")
    named_rows.check_is_new(Webhook, name)
    if Webhook.objects.count() >= MOST:
        raise BadInput(f"there are {MOST} webhooks already: remove one, or notify several by one receiver")
    _check_url(url, allow_private)


def edit(name: str, by: Actor, *, sees_results: bool = True, **values: Any) -> Webhook:
    """Set fields (`FIELDS`); deliveries that wait go to the new address. `sees_results`: whether this person
    may see payloads and results. Raises `BadInput`."""
    with transaction.atomic():
        row = named_rows.find_for_update(Webhook, name)
        if sends_results(values, row) and not sees_results:  # since somebody else has just edited it
            raise BadInput(f"webhook {name!r} sends results: who edits it must be allowed to see them")
        if named_rows.set_fields(row, by, checked(values)) & {"url", "allow_private"}:
            _check_url(row.url, row.allow_private)
    _changed()
    return row


def sends_results(values: Mapping[str, Any], row: Webhook | None = None) -> bool:
    """Whether a webhook with these fields sends what work returned: then who sets any of them must be allowed
    to see payloads and results, which an address or a pattern of flows would else tell."""
    return bool(values.get("include_result")) or (
        row is not None and row.include_result and values.get("include_result") is not False
    )


def remove(name: str, by: Actor) -> None:
    """Delete a webhook; deliveries that wait are skipped."""
    with transaction.atomic():
        row = named_rows.find_for_update(Webhook, name)
        by.record(REMOVE, name, _shown_fields(row), ABSENT)
        row.delete()
    _changed()


def pause(name: str, by: Actor, until: datetime | None = None) -> None:
    """Send it nothing until it is resumed: what ends meanwhile, and what waits to be delivered."""
    named_rows.pause(Webhook, name, by, until)
    _changed()


def resume(name: str, by: Actor) -> None:
    """Notify it of what ends from now on. Raises `BadInput` for one that is not paused."""
    named_rows.resume(Webhook, name, by, failed_in_row=0)
    _changed()


def send_test(name: str, by: Actor) -> str:
    """Enqueue a delivery that says it is a test; returns its key. Raises `BadInput` for a webhook that is
    paused, whose deliveries would be skipped."""
    row, now = find(name), database_now()
    if row.is_paused(now):
        raise BadInput(f"webhook {name!r} is {row.pause_sentence()}: resume it first")
    to = webhook_events.subscription(row)
    delivery = Delivery(to, "webhook.test", uuid4().hex, {"webhook": name, "requested_by": by.actor})
    with transaction.atomic():
        webhook_events.insert([delivery], now)
        by.record(TEST, name, {}, {"key": delivery.key})
    after_commit(dispatch)
    return delivery.key


def _shown_fields(row: Webhook) -> dict[str, Any]:
    """Its fields as they may be shown and recorded: the address without its query."""
    return {field: masked(getattr(row, field)) for field in FIELDS}


def _changed() -> None:
    after_commit(webhook_events.read_again)


def _check_url(url: str, allow_private: bool) -> None:
    if allow_private and not webhook_settings().webhook_allow_private:
        raise BadInput(
            "private addresses and http are for webhooks only where SLUICE_WEBHOOK_ALLOW_PRIVATE allows them"
        )
    webhook_target.parse(url, allow_private=allow_private)


def checked(values: Mapping[str, Any]) -> dict[str, Any]:
    """These fields as rows have them. Raises `BadInput` for one that is not valid, by its name."""
    checks: dict[str, Callable[[Any], Any]] = {
        "url": _url,
        "flows": _flows,
        "events": _events,
        "secret_name": _secret_name,
        "allow_private": bool,
        "include_result": bool,
        "description": lambda value: _text("description", value, 300),
    }
    return named_rows.checked(Webhook, values, checks)


def _url(value: Any) -> str:
    """Not quoted where it is refused: it may hold a secret."""
    text = str(value).strip()
    if len(text) > MAX_URL:
        raise BadInput(f"the webhook's URL has {len(text)} characters; {MAX_URL} fit")
    return text


def _text(what: str, value: Any, most: int) -> str:
    text = str(value).strip()
    return check_text(what, text, most) if text else text


def _words(value: Any) -> list[str]:
    return list(dict.fromkeys(value.split() if isinstance(value, str) else map(str, value)))


def _flows(value: Any) -> str:
    patterns = _words(value)
    if not patterns or any(len(pattern.split()) != 1 for pattern in patterns):
        raise BadInput("flows: name one, several, or a pattern such as shop.*; * is all")
    return _text("flows", " ".join(patterns), 500)


def _events(value: Any) -> str:
    events = _words(value)
    if not events or (unknown := sorted(set(events) - {*WebhookEvent.values})):
        named = ", ".join(unknown)[:200] if events else "none"
        raise BadInput(f"events {named}: there are {', '.join(WebhookEvent.values)}")
    return " ".join(event for event in WebhookEvent.values if event in events)


def _secret_name(value: Any) -> str:
    if value and not NAME.fullmatch(str(value)):
        raise BadInput("secret_name is the name of an entry in SLUICE_WEBHOOK_SECRETS, never a secret itself")
    return str(value or "")
