"""Start everything that may start now: decide under the scheduler lock, publish after commit.

Called whenever something may have changed: work enqueued, a lease ended elsewhere, a limit edited, a
worker registered, a tick. Nobody waits for the lock to decide. Who finds it busy leaves a mark, tries once
more, and then leaves the decision to the holder, who looks for marks after its commit. No change is missed:

- the mark was committed before the second try, and the second try failed before the holder's commit, so the
  holder's look after its commit sees the mark;
- or some decision has deleted the mark, which it can only have done after the mark was committed, and it
  read everything else after that.

If the holder dies between its commit and its look, the mark waits for the next decision: of this process a
second later where it serves steps, of the tick at the latest.
"""

from __future__ import annotations

import time
from dataclasses import replace

from django.db import DatabaseError

from queuemgr.base import scheduler_lock, transaction
from queuemgr.base.queue_database import connection
from queuemgr.base.scheduler_lock import SchedulerLock
from queuemgr.lifecycle import lock_holds, publish, redispatch_timer, scheduler, tracing
from queuemgr.lifecycle.scheduler import FreeSlots, GrantResult
from queuemgr.scheduling import wakeups
from queuemgr.scheduling.parking import NO_ROUTES, Woken

MOST_ROUNDS = 20
"""Decisions one call makes for others in a row; then the timer continues, or whoever decides next."""

LOOK_AGAIN_SECONDS = 1.0
"""When a process that left its decision to another looks again, in case that one died."""


def dispatch() -> int:
    """Grant and publish what may start; returns how many leases were published.

    Must not be called inside a transaction: use `transaction.on_commit(dispatch)` there.
    """
    published = 0
    for _ in range(MOST_ROUNDS):
        granted = grant_leases()
        if granted is None:
            redispatch_timer.schedule_redispatch(LOOK_AGAIN_SECONDS)
            return published
        redispatch_timer.schedule_redispatch(granted.next_wakeup)
        published += len(granted.to_send)
        publish.send(granted.to_send)
        if not wakeups.has_mark():
            return published
    redispatch_timer.schedule_redispatch(0.0)
    return published


def grant_leases(free_slots: FreeSlots | None = None, wait_ms: int = 0) -> GrantResult | None:
    """Grant leases to these slots and to what else may start; the caller publishes them, and then looks for
    marks. None if another process holds the lock for so long: that one decides again after its commit."""
    granted = _decide(free_slots, wait_ms)
    if granted is None:
        wakeups.leave_mark()
        granted = _decide(free_slots, 0)
    return granted


def grant_to(free_slots: FreeSlots | None, wait_ms: int) -> GrantResult:
    """As `grant_leases`, with what others found busy meanwhile left to the timer."""
    return for_others(grant_leases(free_slots, wait_ms))


def _decide(free_slots: FreeSlots | None, wait_ms: int) -> GrantResult | None:
    """One decision in a transaction of its own, or None if the lock is busy."""
    with transaction.atomic():
        lock = scheduler_lock.try_acquire(wait_ms)
        if lock is None:
            return None
        scheduler_lock.limit_row_waits(scheduler_lock.ROW_WAIT_MS)
        return decide(lock, free_slots)


def decide(lock: SchedulerLock, free_slots: FreeSlots | None = None, woken: Woken = NO_ROUTES) -> GrantResult:
    """Grant leases to all that may start now, to routes `woken` by the caller too, who publishes `to_send`
    after the commit."""
    began = time.time()
    granted = scheduler.schedule(lock, free_slots, woken)
    tracing.record_decision(began, granted)
    return granted


def for_others(granted: GrantResult | None) -> GrantResult:
    """The result of a decision that others may have found under way: then the timer makes it again at once.
    None is a decision left to others, at which it looks again in a second.

    For those who take the lock with `try_acquire`; to be called after their commit.
    """
    if granted is None:
        return GrantResult([], [], LOOK_AGAIN_SECONDS)
    try:
        marked = wakeups.has_mark()
    except DatabaseError:  # what was granted is committed, and must not be lost with this look
        connection.close()
        marked = True
    return replace(granted, next_wakeup=0.0) if marked else granted


def _dispatch_for_others() -> None:
    if wakeups.has_mark():
        dispatch()


scheduler_lock.look_for_marks_with(_dispatch_for_others)
scheduler_lock.note_holds_with(lock_holds.note)
