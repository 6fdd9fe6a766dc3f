"""What a person or a program does with batches: open one, add to it, close it, cancel it.

A batch is executions of one flow, numbered in the order they were given. It completes when it is closed, all
of them have ended, and the batches in it have completed. See `batch_window` for its window,
`batch_completion`, `batch_progress` and `batch_results`. A program acts as nobody (`by` is None), and is not
in the audit log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from uuid import UUID

from django.db import IntegrityError
from django.db.models import Max

from queuemgr.base import scheduler_lock, transaction
from queuemgr.base.after_commit import after_commit
from queuemgr.base.errors import BadInput, LeaseLost, QueueFull, StillStoring
from queuemgr.flows.call import Call
from queuemgr.flows.flow import NORMAL, NewExecution, get_flow
from queuemgr.flows.payload_validation import check_text
from queuemgr.flows.unique import SKIP
from queuemgr.lifecycle import batch_window, lease_locks, uniqueness
from queuemgr.lifecycle.batch_window import MAX_WINDOW
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import Enqueued, Rows, enqueue_many, insert
from queuemgr.models import UNFINISHED, Batch, Execution
from queuemgr.operations import batch_allowances, batch_callbacks
from queuemgr.operations.controls import Actor
from queuemgr.reporting.batch_progress import progress
from queuemgr.reporting.batch_results import results
from queuemgr.scheduling import wakeups

__all__ = ("add", "cancel", "close", "find", "open_batch", "progress", "results")

MAX_NAME = 150

SUGGESTED = 5
"""Names of batches in the message for an unknown one."""


def open_batch(
    name: str, flow: str, by: Actor | None, *, fail_fast: bool = False, window: int = 0,
    callbacks: Mapping[str, Call] | None = None, parent: Batch | None = None, member: UUID | None = None,
    allowances: str = "",
) -> Batch:  # fmt: skip
    """Make a batch of executions of this flow.

    `fail_fast`: the first member that fails for good cancels the rest. `window`: only so many members,
    counted from the first unfinished one, may start (0: any). `callbacks`: what is enqueued when it
    completes, by `BatchEvent`. `parent`: the batch that completes after it, which must be open, unless
    `member` is the lease of one of its members. `allowances`: what its members may use together, as
    `5 usd in total`. Raises `BadInput` for a name that is taken or invalid, a window beyond `MAX_WINDOW`, an
    allowance that cannot be read, or a callback that could not be enqueued, and `UnknownFlow`.
    """
    if not (0 < len(name) <= MAX_NAME and name == name.strip() and name.isprintable()):
        raise BadInput(
            f"{name[:60]!r} cannot be a batch's name: 1 to {MAX_NAME} printable characters, none of "
            "them a blank at its beginning or end"
        )
    if not 0 <= window <= MAX_WINDOW:
        raise BadInput(f"window {window} is not 0 (any may start) to {MAX_WINDOW}")
    batch = Batch(
        name=name, flow=get_flow(flow).name, fail_fast=fail_fast, window=window, parent=parent,
        created_at=scheduler_lock.database_now(), created_by=by.actor if by else "",
    )  # fmt: skip
    with transaction.atomic():
        if parent is not None:
            _lock_for_adding(parent, member)
        _save_new(batch)
        batch_allowances.declare(batch, allowances)
        declared = batch_callbacks.declare(batch, callbacks or {})
        if by:
            rules = {"flow": batch.flow, "fail_fast": batch.fail_fast, "window": batch.window}
            rules |= {callback.event: f"{callback.flow}/{callback.key}" for callback in declared}
            rules |= {"parent": parent.name} if parent else {}
            rules |= {"allowances": batch_allowances.of(batch)} if allowances else {}
            by.record("open batch", f"batch {name}", None, rules)
    return batch


def _save_new(batch: Batch) -> None:
    with suppress(IntegrityError), transaction.atomic():
        batch.save()
        return
    raise BadInput(f"a batch is called {batch.name!r} already: give another name, or add to that one")


def find(name: str) -> Batch:
    """The batch of this name; raises `BadInput` naming the newest when there is none."""
    check_text("batch", name, MAX_NAME)
    batch = Batch.objects.filter(name=name).first()
    if batch is None:
        newest = ", ".join(Batch.objects.values_list("name", flat=True)[:SUGGESTED])
        remedy = f"the newest are: {newest}" if newest else "open it first: queue batch open NAME"
        raise BadInput(f"no batch is called {name[:60]!r}; {remedy}")
    return batch


def add(
    batch: Batch, intakes: Iterable[NewExecution], *, priority: int = NORMAL,
    run_after: datetime | None = None, member: UUID | None = None,
) -> Enqueued:  # fmt: skip
    """Append members in the order given, which may start no earlier than `run_after`.

    A key that exists is left as it is: a member keeps its number, so adding the same again changes
    nothing, and one that is no member (`outside_batch`) does not become one. Raises `BadInput` when the batch
    is closed, and what `enqueue_many` does; what was inserted before an error stays.

    `member` is the lease of a running member: it may add to a batch that is closed, which does not complete
    before it has ended. Raises `LeaseLost` when that has ended.
    """
    enter = partial(_enter, batch, run_after, member)
    key = batch_allowances.key_of(batch.pk)
    return enqueue_many(
        batch.flow, intakes, priority=priority, run_after=run_after, enter=enter, also_under=key
    )


def _enter(batch: Batch, run_after: datetime | None, member: UUID | None, rows: Rows) -> Enqueued:
    """Insert some members, with the batch's row locked until the transaction ends, which may be the caller's:
    so nothing that all wait for is held meanwhile. Where its window ended is read without the scheduler lock;
    a decision after the commit moves on what it moved past meanwhile."""
    locked = _lock_for_adding(batch, member)
    if batch.window:
        wakeups.post(batches=[batch.pk])
    fresh, there = _partition(locked, rows)
    _number(locked, fresh, run_after)
    try:
        return insert(fresh) + there if fresh else there
    except QueueFull as full:
        raise full.after(0, there.already) from None


def _lock_for_adding(batch: Batch, member: UUID | None) -> Batch:
    """Its row, locked after that of the lease of its running member, if one adds. Its key stays free
    (`no_key`): a decision that writes a row of a member twice checks it again at its commit."""
    if member is not None and batch.pk not in lease_locks.keep_held(member):
        raise LeaseLost(f"lease {member} is of no running member of batch {batch.name} (any more)")
    locked = Batch.objects.select_for_update(no_key=True).get(pk=batch.pk)
    _check_open(locked, is_closed_to_all=member is None)
    return locked


def _check_open(batch: Batch, *, is_closed_to_all: bool) -> None:
    if batch.cancelled_at:
        raise BadInput(f"batch {batch.name} was cancelled ({batch.cancelled_because}): open another")
    if batch.closed_at and is_closed_to_all:
        since = f"{batch.closed_at:%Y-%m-%d %H:%M} UTC"
        raise BadInput(f"batch {batch.name} is closed since {since}: open another")


def _partition(batch: Batch, rows: Rows) -> tuple[list[Execution], Enqueued]:
    """The rows whose key is new, each key once; and how many existed, or had one with their unique key."""
    apart, instead = _apart(rows)
    keys = {row.key: instead.get(row.key, row.key) for row in rows}
    known = Execution.objects.filter(flow=batch.flow, key__in=set(keys.values()))
    batch_of = dict(known.values_list("key", "batch_id"))
    fresh: dict[str, Execution] = {}
    for row in apart:
        if keys[row.key] not in batch_of:
            fresh.setdefault(row.key, row)
    outside_batch = sum(keys[row.key] in batch_of and batch_of[keys[row.key]] != batch.pk for row in rows)
    there = Enqueued(0, len(rows) - len(fresh), (), outside_batch, instead)
    return list(fresh.values()), there


def _apart(rows: Rows) -> tuple[Rows, dict[str, str]]:
    """Rows of which no two have the same unique key; and by key, what there is instead of others."""
    if any(row.unique and row.unique.rule.on_conflict != SKIP for row in rows):
        raise BadInput(
            "a member of a batch has its turn and its payload: it cannot be debounced nor replaced"
        )
    apart, into = uniqueness.merge(rows)
    held = uniqueness.held(apart)
    return apart, {**held, **{key: held.get(kept, kept) for key, kept in into.items()}}


def _number(batch: Batch, rows: Rows, run_after: datetime | None) -> None:
    """Number these, and defer those beyond the window.

    Their times are the database's, as that of a cancellation is, which includes what was added before it.
    """
    now = scheduler_lock.database_now()
    last = batch.executions.aggregate(last=Max("batch_seq"))["last"]
    first = 0 if last is None else last + 1
    head = batch_window.first_unfinished([batch.pk]).get(batch.pk, first) if batch.window else first
    for seq, row in enumerate(rows, start=first):
        row.batch, row.batch_seq = batch, seq
        row.created_at = row.attempts_counted_since = now
        held = batch.window and seq >= head + batch.window
        row.run_after = None if held else max(run_after or now, now)


def close(batch: Batch, by: Actor | None) -> bool:
    """Accept no more members: the batch completes when all of them have ended. False when it was closed
    before."""
    with transaction.atomic():
        locked = _locked(batch)
        if locked.closed_at is not None:
            return False
        locked.closed_at = batch.closed_at = scheduler_lock.database_now()
        locked.save(update_fields=("closed_at",))
        if by:
            by.record("close batch", f"batch {batch.name}", {"is": "open"}, {"is": "closed"})
        wakeups.post(batches=[batch.pk])
    after_commit(dispatch)
    return True


def cancel(batch: Batch, by: Actor) -> int:
    """Cancel what waits, request the cancellation of what runs, and close the batch.

    Returns how many members had not ended; 0 when it was cancelled before, or has completed. From then on
    none of them starts; those left over are cancelled by this call or, if it is interrupted, by later
    decisions.
    """
    with transaction.atomic():
        locked = _locked(batch)  # before the scheduler lock: a transaction of the application may hold it
        lock = scheduler_lock.acquire()
        because = f"by {by.actor}{f': {by.reason}' if by.reason else ''}"
        unfinished = 0
        if batch_window.mark_cancelled(lock, batch, locked, because):
            unfinished = batch.executions.filter(state__in=UNFINISHED).count()
            before, after = {"unfinished": unfinished}, {"is": "cancelled"}
            by.record("cancel batch", f"batch {batch.name}", before, after, unfinished)
            wakeups.post(cancelling=[batch.pk])
    batch.refresh_from_db()
    if batch.cancelled_at is None:
        return 0  # it has completed
    _cancel_next_members(batch)
    # The rest in transactions of their own, whatever transaction this was called in.
    after_commit(partial(_cancel_remaining_members, batch))
    return unfinished


def _locked(batch: Batch) -> Batch:
    """The row, locked after waiting for whoever adds members; raises `StillStoring` when that takes longer
    than a person waits."""
    try:
        with scheduler_lock.lock_timeout(ROW_WAIT_SECONDS * 1000):
            return Batch.objects.select_for_update(no_key=True).get(pk=batch.pk)
    except scheduler_lock.LockTimeout:
        raise StillStoring(
            f"a transaction has been adding members to batch {batch.name} for over {ROW_WAIT_SECONDS:g} s: "
            "try again when it has ended"
        ) from None


ROW_WAIT_SECONDS = 5


def _cancel_remaining_members(batch: Batch) -> None:
    while _cancel_next_members(batch):
        pass
    dispatch()


def _cancel_next_members(batch: Batch) -> int:
    with scheduler_lock.hold_scheduler_lock() as lock:
        return batch_window.cancel_members(lock, batch)


def ended_at(batch: Batch) -> datetime | None:
    """When the last member of a closed batch ended; None while one has not, or it is open."""
    if batch.closed_at is None or batch_window.first_unfinished([batch.pk]):
        return None
    last = batch.executions.aggregate(last=Max("finished_at"))["last"]
    return max(last or batch.closed_at, batch.closed_at)


def rules_of(batch: Batch) -> str:
    """Its window, fail-fast rule and allowances in words; empty for none."""
    words = [f"window {batch.window:,}"] if batch.window else []
    words += [stated] if (stated := batch_allowances.of(batch)) else []
    words += ["the first failure cancels the rest"] if batch.fail_fast else []
    return "; ".join(words)


def status_of(batch: Batch) -> str:
    """Open, closed, completed or cancelled, and why."""
    if batch.cancelled_at:
        return f"cancelled: {batch.cancelled_because}"
    if batch.completed_at:
        return "completed" if batch.succeeded else "completed, with failures"
    return "closed" if batch.closed_at else "open"
