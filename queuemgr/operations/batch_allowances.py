"""What a batch may use: allowances of the limit `batch:ID`, under which all its members run."""

from __future__ import annotations

from queuemgr.base.stated_allowances import in_normal_form
from queuemgr.models import AllowanceUsage, Batch, Limit
from queuemgr.scheduling import wakeups
from queuemgr.scheduling.claims import BATCH, RouteKind


def declare(batch: Batch, allowances: str) -> None:
    """Make the limit of a new batch, in the transaction that makes it. Raises `BadInput`."""
    if stated := in_normal_form(allowances):
        Limit.objects.update_or_create(name=_name(batch.pk), defaults={"allowances": stated})
        wakeups.post(limits=[wakeups.EVERYTHING])


def key_of(batch_id: int | None) -> str:
    """The key that its members run under beside those of their steps; empty without allowances."""
    there = batch_id is not None and Limit.objects.filter(name=_name(batch_id)).exists()
    return _name(batch_id) if batch_id is not None and there else ""


def in_batch(kind: RouteKind, batch_id: int | None) -> RouteKind:
    """Where a member waits, which would wait there without its batch."""
    return kind.also_under(key_of(batch_id)) if batch_id is not None else kind


def of(batch: Batch) -> str:
    """Its allowances as they are now; empty for none."""
    return Limit.objects.filter(name=_name(batch.pk)).values_list("allowances", flat=True).first() or ""


def remove(batch_id: int) -> None:
    """With the batch goes what was allowed to it, and what it used of that."""
    if Limit.objects.filter(name=_name(batch_id)).delete()[0]:
        AllowanceUsage.objects.filter(limit=_name(batch_id)).delete()


def _name(batch_id: int) -> str:
    return f"{BATCH}{batch_id}"
