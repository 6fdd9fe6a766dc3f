"""Stored responses of the API, for requests repeated with the same idempotency key."""

from __future__ import annotations

from datetime import datetime, timedelta

from queuemgr.models import IdempotencyRecord

RETENTION = timedelta(hours=24)
"""How long a response is stored, as most APIs with such keys do."""

PRUNE_ROWS = 5_000
"""Rows deleted in one statement."""


def prune(now: datetime) -> int:
    """Delete older responses; returns how many."""
    old = IdempotencyRecord.objects.filter(at__lt=now - RETENTION)
    pruned = 0
    while some := list(old.values_list("pk", flat=True)[:PRUNE_ROWS]):
        pruned += IdempotencyRecord.objects.filter(pk__in=some).delete()[0]
    return pruned
