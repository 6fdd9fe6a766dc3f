"""Answers of the API, kept for whoever sends the same request under the same key again."""

from __future__ import annotations

from datetime import datetime, timedelta

from queuemgr.models import IdempotencyRecord

KEPT = timedelta(hours=24)
"""How long an answer can be asked for again: what most APIs with such keys keep theirs."""

PRUNE_ROWS = 5_000
"""Rows deleted in one statement."""


def prune(now: datetime) -> int:
    """Forget answers no longer kept; returns how many."""
    old = IdempotencyRecord.objects.filter(at__lt=now - KEPT)
    pruned = 0
    while some := list(old.values_list("pk", flat=True)[:PRUNE_ROWS]):
        pruned += IdempotencyRecord.objects.filter(pk__in=some).delete()[0]
    return pruned
