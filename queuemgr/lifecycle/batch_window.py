"""What the end of a batch member changes: its window moves on, a first failure cancels the rest.

`batch_completion` calls it for every batch in which a member has ended.

Members beyond the window wait without a time (`run_after` is NULL), so admission never counts them.
Looking at a batch takes a few steps along an index, and at most `MAX_WINDOW` rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from django.db.models import F, Q

from queuemgr import signals
from queuemgr.base import scheduler_lock, sql
from queuemgr.base.queue_database import connection
from queuemgr.base.redaction import clean
from queuemgr.base.scheduler_lock import SchedulerLock
from queuemgr.lifecycle import execution_signals, lease_locks, leases, states, webhook_events
from queuemgr.lifecycle.states import Head
from queuemgr.models import HELD, Batch, Execution, State, WebhookEvent
from queuemgr.scheduling import parking, wakeups

MAX_WINDOW = 10_000
"""Members. Bounds what a decision reads when a window moves."""

CANCEL_BATCH_SIZE = 500
"""Members cancelled in one decision, so that cancelling a large batch delays no other work."""


def advance(lock: SchedulerLock, batch: Batch, *, cancelling: bool) -> bool:
    """Move the window of a batch with ended members, or continue cancelling its members; that only on
    request, since the scan is too costly for every end of a member.

    True when a cancelled batch is so large that some of it is left for the next decision.
    """
    if batch.fail_fast and batch.cancelled_at is None:
        failed = batch.executions.failed().order_by("finished_at", "batch_seq").first()
        if failed is not None:
            because = f"{failed.key[:150]} failed: {failed.error_kind}"
            cancelling = _cancel_for_failure(lock, batch, because) or cancelling
    left = cancelling and cancel_members(lock, batch) == CANCEL_BATCH_SIZE
    if batch.window:
        start_within_window(lock, batch)
    return left


def _cancel_for_failure(lock: SchedulerLock, batch: Batch, because: str) -> bool:
    """Mark a batch cancelled, unless somebody is adding members to it: whoever holds its row may be in a
    transaction of the application, and all decisions would wait for that. The next decision tries
    again, at the latest the tick's."""
    free = Batch.objects.filter(pk=batch.pk)
    if connection.features.has_select_for_update:
        free = free.select_for_update(skip_locked=True, no_key=True)
    locked = free.first()
    if locked is None:
        wakeups.post(batches=[batch.pk])
        return False
    return mark_cancelled(lock, batch, locked, because)


def mark_cancelled(lock: SchedulerLock, batch: Batch, locked: Batch, because: str) -> bool:
    """Close a batch and mark it cancelled; `locked` is its row, locked by this transaction.

    From then on no member starts. False when it was cancelled before, and when it has completed: what it
    calls then is called, and nothing is left to cancel.
    """
    if locked.cancelled_at is not None or _is_over(locked):
        return False
    # Not before the members added while we waited: they are to be cancelled, too.
    at = max(lock.now, scheduler_lock.database_now())
    batch.cancelled_at, batch.closed_at = at, locked.closed_at or at
    batch.cancelled_because = clean(because)[:200]
    batch.save(update_fields=("cancelled_at", "closed_at", "cancelled_because"))
    return True


def _is_over(batch: Batch) -> bool:
    """A member that was retried makes it incomplete again, which the next decision stores."""
    return batch.completed_at is not None and not first_unfinished([batch.pk])


def cancel_members(lock: SchedulerLock, batch: Batch) -> int:
    """Cancel up to `CANCEL_BATCH_SIZE` waiting members of a cancelled batch, and ask running ones to stop.

    Returns how many were cancelled. Members a person retried since are left unchanged.
    """
    members = batch.executions.filter(attempts_counted_since__lte=batch.cancelled_at)
    busy = lease_locks.lock_free_of(members.held())
    free = members.exclude(pk__in=busy)
    leases.revoke_unstarted_of(free.filter(state=State.LEASED))
    leases.request_cancellation(free.filter(state=State.RUNNING), _name(batch))
    if busy:  # these are being ended right now; whatever waits afterwards is cancelled next time
        wakeups.post(cancelling=[batch.pk])
    waiting = members.waiting().order_by("batch_seq").values_list("pk", flat=True)
    return _cancel(list(waiting[:CANCEL_BATCH_SIZE]), batch, lock.now)


def _cancel(members: Collection[int], batch: Batch, now: datetime) -> int:
    reason = f"cancelled with {_name(batch)}: {batch.cancelled_because}"[:200]
    states.move(members, State.CANCELLED, finished_at=now, route_id=None, wait_reason=reason)
    execution_signals.moved(signals.execution_cancelled, members)
    webhook_events.moved(WebhookEvent.CANCELLED, members, now)
    return len(members)


def _name(batch: Batch) -> str:
    return f"batch {batch.name}"[:150]


def drop_cancelled(lock: SchedulerLock, taken: Sequence[Head]) -> list[Head]:
    """Remove members of batches cancelled meanwhile, and cancel them; returns the others."""
    members = [head.id for head in taken if head.batch_id]
    if not members:
        return list(taken)
    late = Execution.objects.select_related("batch").filter(
        pk__in=members, attempts_counted_since__lte=F("batch__cancelled_at")
    )
    by_batch: dict[Batch, set[int]] = defaultdict(set)
    for execution in late:
        if execution.batch:
            by_batch[execution.batch].add(execution.pk)
    for batch, some in by_batch.items():
        _cancel(some, batch, lock.now)
    cancelled = set[int]().union(*by_batch.values())
    return [head for head in taken if head.id not in cancelled]


def start_within_window(lock: SchedulerLock, batch: Batch) -> None:
    """Make members inside the window due now."""
    head = first_unfinished([batch.pk]).get(batch.pk)
    if head is None:
        return
    routes = states.start_members(batch.pk, range(head, head + batch.window), lock.now)
    parking.fall_due(lock, routes, lock.now)


def defer_beyond_window(lock: SchedulerLock, members: Collection[int]) -> None:
    """Clear `run_after` of those of these executions that are beyond their batch's window."""
    waiting = Execution.objects.waiting().select_related("batch").only("batch_seq", "batch__window")
    batch_of = {e: e.batch for e in waiting.filter(pk__in=members, batch__window__gt=0) if e.batch}
    heads = first_unfinished({batch.pk for batch in batch_of.values()})
    ends = {batch.pk: heads.get(batch.pk, 0) + batch.window for batch in batch_of.values()}
    beyond = [e.pk for e, batch in batch_of.items() if (e.batch_seq or 0) >= ends[batch.pk]]
    states.defer_members(beyond)


_OF_STATE = """
    SELECT batch_seq AS first FROM (
        SELECT batch_id, state, batch_seq FROM queuemgr_execution
         WHERE batch_id IS NOT NULL AND (batch_id, state, batch_seq) >= (b.id, '{state}', 0)
         ORDER BY batch_id, state, batch_seq LIMIT 1) AS nearest
     WHERE batch_id = b.id AND state = '{state}'
"""
"""Compared as a row, so that only the index made for it can be used: otherwise PostgreSQL may scan all
ended members in order of `batch_seq`."""


_FIRSTS = " UNION ALL ".join(_OF_STATE.format(state=state) for state in (State.WAITING, *HELD))
_HEADS = f"""
    SELECT b.id, (SELECT MIN(first) FROM ({_FIRSTS}) AS firsts) FROM queuemgr_batch b
     WHERE b.id IN ({{ids}})
"""


class _Head(NamedTuple):
    batch_id: int
    seq: int | None


def first_unfinished(batches: Collection[int]) -> dict[int, int]:
    """The `batch_seq` of the first member that has not ended, by batch; batches without one are missing.
    A few steps along an index each, however many have ended."""
    if not batches:
        return {}
    heads = sql.rows(_Head, _HEADS.format(ids=sql.marks(len(batches))), list(batches))
    return {row.batch_id: row.seq for row in heads if row.seq is not None}


class WindowPositions:
    """Why members beyond the window wait, in a sentence.

    Read when first asked, for the windows of the newest batches at once, so that a page of such members
    costs two statements.
    """

    def __init__(self) -> None:
        self._windows: dict[int, tuple[str, int]] = {}
        self._heads: dict[int, int] = {}

    def sentence(self, member: Execution) -> str:
        """Such as `beyond the window of batch nightly: 3 before it (window 10)`."""
        batch, seq = member.batch_id or 0, member.batch_seq or 0
        if batch not in self._windows:
            self._read(batch)
        name, window = self._windows[batch]
        before = max(1, seq - self._heads.get(batch, seq) - window + 1)
        return f"beyond the window of batch {name}: {before:,} before it (window {window:,})"

    def _read(self, batch: int) -> None:
        windowed = Batch.objects.filter(window__gt=0).order_by("-pk").values("pk")[:NEWEST]
        batches = Batch.objects.filter(Q(pk__in=windowed) | Q(pk=batch))
        self._windows |= {pk: (name, n) for pk, name, n in batches.values_list("pk", "name", "window")}
        self._heads = first_unfinished(self._windows)


NEWEST = 200
"""Batches whose windows are read together."""
