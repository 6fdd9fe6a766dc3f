"""What the ends of batch members lead to: windows move on, the rest is cancelled, the batch completes.

Every end of a member posts a wake-up for its batch in its own transaction (`states.move`), whoever ended it.
The next decision reads it under the scheduler lock: mostly in the same transaction, else in the next
decision, at the latest at the tick. So one transaction at a time looks at batches, it sees every end that was
committed, and what a killed process left undone is done by the next.

A batch completes when it is closed, no member is unfinished, and the batches in it have completed: a few
steps along an index, however many have ended. That it has completed is stored in the transaction that inserts
the executions of its callbacks: each callback once in the life of its batch. Members that are retried after
that make it incomplete again; when they have ended, callbacks that have not fired may.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from datetime import datetime

from django.db.models import Exists, OuterRef

from queuemgr.base.queue_database import connection
from queuemgr.base.scheduler_lock import LockTimeout, SchedulerLock, lock_timeout
from queuemgr.lifecycle import batch_window, execution_signals, states, tracing, webhook_events
from queuemgr.models import UNFINISHED, Batch, BatchCallback, BatchEvent, Execution, State
from queuemgr.scheduling import parking, wakeups
from queuemgr.scheduling.wakeups import BatchWakeups

UNSUCCESSFUL = (State.FAILED, State.CANCELLED)
"""A batch with a member in one of these has failed. Skipped ones were not wanted, by a step or a person."""

OVERLOOKED_AT_ONCE = 500

KEY_WAIT_MS = 50
"""How long a decision waits for a transaction that is inserting the key of a callback."""


def advance_batches(lock: SchedulerLock, wakeup: BatchWakeups) -> bool:
    """Do for these batches all that the ends of members lead to, and continue cancelling members of others.

    True when a cancelled batch is so large that some of it is left for the next decision.
    """
    if not wakeup.ended and not wakeup.cancelling:
        return False
    batches = list(Batch.objects.filter(pk__in=wakeup.ended | wakeup.cancelling))
    left = [b.pk for b in batches if batch_window.advance(lock, b, cancelling=b.pk in wakeup.cancelling)]
    wakeups.post(cancelling=left)
    _cancel_inner(lock, [b for b in batches if b.cancelled_at])
    _settle(lock, [b for b in batches if b.closed_at])
    return bool(left)


def _cancel_inner(lock: SchedulerLock, cancelled: Sequence[Batch]) -> None:
    """Mark the batches in these that have not completed cancelled, too, for the next decision to cancel their
    members."""
    going_on = Batch.objects.filter(cancelled_at=None, completed_at=None)
    inner = going_on.filter(parent__in=cancelled).select_related("parent")
    for batch in inner if cancelled else ():
        locked, around = _locked(batch), batch.parent
        if locked is None:
            wakeups.post(cancelling=[batch.parent_id or 0])  # again, once its row is free
        elif around and batch_window.mark_cancelled(lock, batch, locked, f"with batch {around.name}"):
            wakeups.post(cancelling=[batch.pk])


def _settle(lock: SchedulerLock, closed: Sequence[Batch]) -> None:
    """Complete those of these closed batches that have come to their end, and the batches they are in; reopen
    those in which a member was retried."""
    unfinished = batch_window.first_unfinished([batch.pk for batch in closed])
    again = [_reopen(b) for b in closed if b.pk in unfinished and b.completed_at]
    if not all(again):  # what is around them must not complete before they do
        wakeups.post(batches=[batch.pk for batch in closed])
        return
    ended = {batch.pk: batch for batch in closed if batch.pk not in unfinished}
    while ended:
        batch = ended.pop(max(ended))  # the newest: a batch is opened after the one it is in
        parent = batch.parent if _complete(lock, batch) else None
        if parent and parent.closed_at and not batch_window.first_unfinished([parent.pk]):
            ended[parent.pk] = parent


def _reopen(batch: Batch) -> bool:
    """Store that this batch, and those around it, have not completed after all; False if somebody holds a
    row of theirs."""
    inner: Batch | None = batch
    while inner and inner.completed_at:
        if _locked(inner) is None:
            return False
        _store(inner, None, None)
        inner = inner.parent
    return True


def _complete(lock: SchedulerLock, batch: Batch) -> bool:
    """Complete a batch none of whose members is unfinished, with its callbacks, unless it holds batches that
    have not completed; True if that changes something for the batch around it.

    Whoever holds its row may be in a transaction of the application, and all decisions would wait for that:
    the next decision tries again, at the latest the tick's.
    """
    if batch.children.filter(completed_at=None).exists():
        return False
    locked = _locked(batch)
    if locked is None:
        wakeups.post(batches=[batch.pk])
        return False
    succeeded = _has_succeeded(locked)
    if locked.completed_at and locked.succeeded == succeeded:
        return False
    outcome = BatchEvent.SUCCESS if succeeded else BatchEvent.FAILURE
    try:
        _fire(lock, batch, (BatchEvent.COMPLETE, outcome))
    except LockTimeout:  # a transaction of the application has enqueued the same key, and is open
        wakeups.post(batches=[batch.pk])
        return False
    _store(batch, locked.completed_at or lock.now, succeeded)
    webhook_events.batch_completed(lock, batch)
    return True


def _locked(batch: Batch) -> Batch | None:
    """Its row, locked; None if somebody else has locked it."""
    free = Batch.objects.filter(pk=batch.pk)
    if connection.features.has_select_for_update:
        free = free.select_for_update(skip_locked=True, no_key=True)
    return free.first()


def _store(batch: Batch, at: datetime | None, succeeded: bool | None) -> None:
    batch.completed_at, batch.succeeded = at, succeeded
    batch.save(update_fields=("completed_at", "succeeded"))


def _has_succeeded(batch: Batch) -> bool:
    """A cancelled batch has failed for good."""
    return (
        batch.cancelled_at is None
        and not batch.executions.filter(state__in=UNSUCCESSFUL).exists()
        and not batch.children.filter(succeeded=False).exists()
    )


def _fire(lock: SchedulerLock, batch: Batch, events: Collection[str]) -> None:
    """Insert the executions of those of these callbacks that have not fired. A full queue takes them, as it
    takes the next step of work that it accepted. Raises `LockTimeout`, with none inserted."""
    due = list(batch.callbacks.filter(event__in=events, fired_at=None).order_by("pk"))
    if not due:
        return
    rows = [_execution(callback, lock.now) for callback in due]
    with lock_timeout(KEY_WAIT_MS):
        execution_signals.enqueued(rows, _inserted(rows))
    BatchCallback.objects.filter(pk__in=[callback.pk for callback in due]).update(fired_at=lock.now)
    parking.fall_due(lock, {callback.route_id for callback in due}, lock.now)


def _inserted(rows: Sequence[Execution]) -> list[str]:
    """Insert these by one statement, each with a trace of its own, as whatever else is enqueued."""
    with ExitStack() as stack:
        spans = {row.key: stack.enter_context(tracing.enqueuing(row.flow, [row])) for row in rows}
        new = states.insert_new(rows)
        for key in new:
            spans[key].stored([key])
        return new


def _execution(callback: BatchCallback, now: datetime) -> Execution:
    return Execution(
        flow=callback.flow, key=callback.key, phase=callback.phase, step=callback.step,
        priority=callback.priority, payload=callback.payload, route_id=callback.route_id, run_after=now,
        created_at=now, attempts_counted_since=now,
    )  # fmt: skip


def find_overlooked() -> int:
    """Post a wake-up for closed batches that have ended and did not complete: those of a release that did not
    complete batches, or of a restored table. Returns how many."""
    unfinished = Execution.objects.filter(batch=OuterRef("pk"), state__in=UNFINISHED)
    inner = Batch.objects.filter(parent=OuterRef("pk"), completed_at=None)
    closed = Batch.objects.filter(closed_at__isnull=False, completed_at=None)
    ended = closed.filter(~Exists(unfinished), ~Exists(inner)).order_by("pk")
    ids = list(ended.values_list("pk", flat=True)[:OVERLOOKED_AT_ONCE])
    wakeups.post(batches=ids)
    return len(ids)
