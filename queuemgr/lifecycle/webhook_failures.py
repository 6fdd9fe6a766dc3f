"""Counts the deliveries of a webhook that failed for good in a row, and pauses it after so many, or at once
when its receiver says that it wants no more (410). In the transaction that ends the delivery."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from django.db.models import F

from queuemgr.base.config import webhook_settings
from queuemgr.lifecycle import webhook_events
from queuemgr.lifecycle.outcome_rules import OutcomeEffects
from queuemgr.models import AuditEntry, State, Webhook
from queuemgr.steptools.webhook_target import GONE

logger = logging.getLogger(__name__)

ACTOR = "webhooks"
"""Who pauses them, in the audit log."""


def judge(effects: Sequence[OutcomeEffects], now: datetime) -> None:
    """Of leases that ended: those of deliveries."""
    if deliveries := [e for e in effects if e.lease.flow == webhook_events.FLOW]:
        _judge(deliveries, now)


def _judge(deliveries: Sequence[OutcomeEffects], now: datetime) -> None:
    accepted = {_webhook(e) for e in deliveries if e.to == State.DONE}
    failed = Counter(_webhook(e) for e in deliveries if e.to == State.FAILED)
    gone = {_webhook(e) for e in deliveries if e.to == State.FAILED and e.attempt.error_kind == GONE}
    for name in sorted(accepted | failed.keys()):  # in one order, or two of these would deadlock
        if name in accepted:
            Webhook.objects.filter(name=name, failed_in_row__gt=0).update(failed_in_row=0)
        if name in failed:
            Webhook.objects.filter(name=name).update(failed_in_row=F("failed_in_row") + failed[name])
            _pause_hopeless(name, now, is_gone=name in gone)


def _webhook(e: OutcomeEffects) -> str:
    return str(e.lease.payload.get("webhook"))


def _pause_hopeless(name: str, now: datetime, *, is_gone: bool) -> None:
    row = Webhook.objects.filter(name=name).first()
    most = webhook_settings().webhook_failures
    if row is None or row.is_paused(now) or not (is_gone or 0 < most <= row.failed_in_row):
        return
    why = "its receiver answered 410" if is_gone else f"{row.failed_in_row} deliveries in a row failed"
    row.paused_at, row.paused_by, row.pause_reason, row.paused_until = now, ACTOR, why, None
    row.save(update_fields=("paused_at", "paused_by", "pause_reason", "paused_until"))
    after = {"paused_at": now.isoformat(), "paused_by": ACTOR, "pause_reason": why}
    AuditEntry.objects.create(
        actor=ACTOR, source="worker", action="pause webhook", target=name, after=after, reason=why
    )
    webhook_events.read_again()
    logger.error("webhook %s is paused: %s", name, why)
