"""Start everything that may start now: decide under the scheduler lock, publish after commit.

Called whenever something may have changed: work enqueued, a lease ended elsewhere, a limit edited, a
worker registered, a tick. A call that finds another process already queued for the lock returns at
once: that one has not read its snapshot yet and will see what was committed.
"""

from __future__ import annotations

import time

from queuemgr.base.scheduler_lock import PendingDispatch, hold_scheduler_lock
from queuemgr.lifecycle import publish, redispatch_timer, scheduler, tracing


def dispatch() -> int:
    """Grant and publish what may start; returns how many leases were published.

    Must not be called inside a transaction: use `transaction.on_commit(dispatch)` there.
    """
    granted = grant_leases()
    redispatch_timer.schedule_redispatch(granted.next_wakeup)
    publish.send(granted.to_send)
    return len(granted.to_send)


def grant_leases() -> scheduler.GrantResult:
    """Grant leases to what may start; the caller publishes them. Returns nothing if another process is
    already queued for the lock: it will see our commit."""
    with PendingDispatch() as pending:
        if not pending.acquired:
            return scheduler.NO_GRANTS
        with hold_scheduler_lock(pending) as lock:
            began = time.time()
            granted = scheduler.schedule(lock)
        tracing.record_decision(began, granted)
        return granted
