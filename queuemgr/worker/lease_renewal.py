"""One thread per worker process that renews the leases of its steps, and does nothing else.

It waits for nothing that could be slow: no dispatch, no broker, no store. A renewal that fails is tried
again after a second, until the result of the step is stored. When a lease turns out to be gone (the process
was frozen, or cut off from the database) its step is aborted: it could no longer store a result.
"""

from __future__ import annotations

from queuemgr.base.config import queue_settings
from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle import leases
from queuemgr.worker import background_thread
from queuemgr.worker.background_thread import RETRY_SECONDS
from queuemgr.worker.current_worker import CurrentWorker
from queuemgr.worker.running_steps import LOST, RunningSteps


def start(worker: CurrentWorker, steps: RunningSteps) -> None:
    """Start the thread, which renews every `SLUICE_HEARTBEAT_SECONDS`."""
    background_thread.repeat("sluice-renewal", lambda: renew(worker, steps))


def renew(worker: CurrentWorker, steps: RunningSteps) -> float:
    """Extend every lease this process runs; abort the steps of leases that are gone. Returns the seconds
    until the next renewal: soon, if a step was being ended, whose store may lose its connection."""
    running = {step.grant.lease_id: step for step in steps.all()}
    if not running:
        return queue_settings().heartbeat_seconds
    renewed = leases.renew(list(running), worker.worker_id, database_now())
    for lease_id in renewed.gone:
        steps.abort(running[lease_id], LOST)
    return RETRY_SECONDS if renewed.ending else queue_settings().heartbeat_seconds
