"""Stating how long the failures of a flow are kept."""

from __future__ import annotations

from math import isfinite

from queuemgr.base import transaction
from queuemgr.base.errors import BadInput
from queuemgr.flows.flow import get_flow
from queuemgr.models import FlowRetention
from queuemgr.operations.controls import Actor

KEEP = "keep failures"
MOST_DAYS = 36_600


def stated(flow: str) -> float | None:
    """What a person has stated, if somebody has."""
    row: FlowRetention | None = FlowRetention.objects.filter(flow=flow).first()
    return row.keep_failed_days if row else None


def keep(flow: str, days: float | None, by: Actor) -> None:
    """Keep the failures of a flow for so many days, 0: for ever, whatever code and settings say; None: as
    they say. What is older goes with the next retention. Raises `BadInput` and `UnknownFlow`."""
    if days is not None and not (isfinite(days) and 0 <= days <= MOST_DAYS):
        raise BadInput(f"{days} days: give a number from 0, which is for ever, to {MOST_DAYS:,}")
    with transaction.atomic():
        row = FlowRetention.objects.select_for_update().filter(flow=flow).first()
        if row is None:
            get_flow(flow)
        before = row.keep_failed_days if row else None
        if days is None:
            FlowRetention.objects.filter(flow=flow).delete()
        else:
            FlowRetention.objects.update_or_create(flow=flow, defaults={"keep_failed_days": days})
        if days != before:
            by.record(KEEP, flow, {"keep_failed_days": before}, {"keep_failed_days": days})
