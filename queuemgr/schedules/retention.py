"""How long it is remembered what became of due times."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef

from queuemgr.models import RunOutcome, ScheduledRun

KEEP = timedelta(days=90)


def prune(now: datetime, rows_at_a_time: int) -> int:
    """Delete runs older than `KEEP` that are not the last of their schedule; returns how many. Those whose
    execution has not ended stay."""
    later = ScheduledRun.objects.filter(schedule=OuterRef("schedule"), due_at__gt=OuterRef("due_at"))
    old = ScheduledRun.objects.filter(Exists(later), decided_at__lt=now - KEEP)
    ended = old.exclude(outcome=RunOutcome.ENQUEUED, ended_at__isnull=True).order_by("decided_at")
    deleted = 0
    while some := list(ended.values_list("pk", flat=True)[:rows_at_a_time]):
        deleted += ScheduledRun.objects.filter(pk__in=some).delete()[0]
    return deleted
