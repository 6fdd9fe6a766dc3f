"""Calls of which Celery is to be notified how they ended: recorded with their executions, reported after it.

The process that ended one reports it at once, in its thread of signals; what a process did not get to, and
what was cancelled, skipped or lost, is found by the tick. So each is reported at least once, and mostly only
once.
What a person retries is reported anew, as Celery does for what a broker delivers a second time.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.dispatch import Signal

from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.signal_delivery import send_after_commit, send_now
from queuemgr.models import UNFINISHED, UNSUCCESSFUL, CanvasCall, Execution

MARK = "@celery"
"""In the payload of such a call: its result is kept, and Celery is notified as soon as it has ended."""

AGAIN = "again"
"""In the request of a call that was reported before."""

CLAIM = timedelta(minutes=1)
"""How long a process has to report one before another tries."""

KEPT = timedelta(days=1)
MOST_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Ended:
    """Calls of this key have ended, or are gone."""

    flow: str
    key: str


calls_ended = Signal()


def record(flow: str, key: str, task_id: str, request: str) -> None:
    """With the execution, in its transaction. A call that is recorded already is not reported again."""
    call = CanvasCall(flow=flow, key=key, task_id=task_id, request=request)
    CanvasCall.objects.bulk_create([call], ignore_conflicts=True)


def is_of_another(flow: str, key: str, task_id: str) -> bool:
    """Whether there is an execution of this key that no message of this id made."""
    if CanvasCall.objects.filter(flow=flow, key=key, task_id=task_id).exists():
        return False
    return Execution.objects.filter(flow=flow, key=key).exists()


def step_ended(flow: str, key: str) -> None:
    """Have it reported, if that was its end, which is committed."""
    send_now(calls_ended, [Ended(flow, key)])


def look() -> None:
    """Have those reported that ended otherwise, or whose process died."""
    ends = list(_ended().values_list("flow", "key").distinct()[:MOST_AT_ONCE])
    if ends:
        send_after_commit(calls_ended, lambda: [Ended(flow, key) for flow, key in ends])


def claim(ended: Ended) -> list[CanvasCall]:
    """Those of this key that have ended, and that no other process reports meanwhile."""
    now = database_now()
    found = _ended().filter(flow=ended.flow, key=ended.key)
    until = now + CLAIM
    claimed = [call for call in found if _unclaimed(now).filter(pk=call.pk).update(claimed_until=until)]
    for call in claimed:
        call.claimed_until = until
    return claimed


def mark_notified(call: CanvasCall) -> None:
    """Unless it was retried meanwhile."""
    CanvasCall.objects.filter(pk=call.pk, claimed_until=call.claimed_until).update(notified_at=database_now())


def retried(executions: Iterable[Execution]) -> None:
    """Have it reported again how these end, which have begun anew.

    A chord counts its parts, and one that failed with this one has failed for good: it is not notified.
    """
    keys: dict[str, list[str]] = defaultdict(list)
    for execution in executions:
        keys[execution.flow].append(execution.key)
    for flow, some in keys.items():
        for call in CanvasCall.objects.filter(flow=flow, key__in=some):
            if call.notified_at:
                request = {**json.loads(call.request), AGAIN: True}
                request.pop("chord", None)
                call.request = json.dumps(request)
            call.notified_at = call.claimed_until = None
            call.save(update_fields=["request", "notified_at", "claimed_until"])


def prune() -> int:
    """Delete those that were reported a day ago, and that nobody may retry; returns how many."""
    executions = Execution.objects.filter(flow=OuterRef("flow"), key=OuterRef("key"))
    old = CanvasCall.objects.filter(notified_at__lt=database_now() - KEPT)
    return old.filter(~Exists(executions.filter(state__in=UNSUCCESSFUL))).delete()[0]


def _ended() -> QuerySet[CanvasCall]:
    """Those to be reported without an unfinished execution."""
    executions = Execution.objects.filter(flow=OuterRef("flow"), key=OuterRef("key"))
    return _unclaimed(database_now()).filter(~Exists(executions.filter(state__in=UNFINISHED))).order_by("pk")


def _unclaimed(now: datetime) -> QuerySet[CanvasCall]:
    return CanvasCall.objects.filter(Q(claimed_until=None) | Q(claimed_until__lte=now), notified_at=None)
