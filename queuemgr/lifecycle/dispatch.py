"""Start everything that may start now: decide under the fleet's lock, publish after commit.

Called whenever something may have changed: work enqueued, a lease ended elsewhere, a limit edited, a
worker come, a tick. Calls that find another already in line return at once: that one has not read
its snapshot yet and will see what they committed.
"""

from __future__ import annotations

import time

from queuemgr.base.scheduler_lock import PendingDispatch, hold_scheduler_lock
from queuemgr.lifecycle import leases, publish, redispatch_timer, tracing


def dispatch() -> int:
    """Lease and publish what may start; returns how many leases were given out.

    Must not be called inside a transaction: use `transaction.on_commit(dispatch)` there.
    """
    granted = grant_leases()
    redispatch_timer.schedule_redispatch(granted.next_wakeup)
    publish.send(granted.to_send)
    return len(granted.to_send)


def grant_leases() -> leases.GrantResult:
    """Lease what may start; the caller publishes. Nothing when another is about to look anyway."""
    with PendingDispatch() as pending:
        if not pending.acquired:
            return leases.NO_GRANTS
        with hold_scheduler_lock(pending) as lock:
            began = time.time()
            granted = leases.schedule(lock)
        tracing.record_decision(began, granted)
        return granted
