"""Celery tasks of the periodic jobs.

Their results are in the result backend, where it takes them, and shown in the admin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import shared_task

from queuemgr.base.config import queue_settings
from queuemgr.lifecycle import periodic_jobs
from queuemgr.lifecycle.periodic_jobs import ROLL_UP_SECONDS
from queuemgr.operations.bulk import TASK as BULK
from queuemgr.operations.bulk import runner as bulk_runner
from queuemgr.worker import housekeeping, retention
from queuemgr.worker.periodic_task import PeriodicTask


def _periodic(name: str, run: Callable[[], dict[str, int]], every: Callable[[], float]) -> Any:
    """The Celery task of a job; its result is None when the job ran less than `every` seconds ago."""
    row = periodic_jobs.row_of(name)

    def run_if_due() -> dict[str, int] | None:
        if not housekeeping.claim(row, every()):
            return None
        with periodic_jobs.shown_running(row):
            return run()

    return shared_task(base=PeriodicTask, name=f"queuemgr.{name}")(run_if_due)


tick = _periodic("tick", housekeeping.tick, lambda: queue_settings().poll_interval / 2)
backfill = _periodic("seed", housekeeping.backfill, lambda: queue_settings().stale_interval / 2)
prune = _periodic("prune", housekeeping.prune, lambda: queue_settings().stale_interval / 2)
alerts = _periodic("alerts", housekeeping.alerts, lambda: periodic_jobs.ALERT_SECONDS / 2)
roll_up = _periodic("roll_up", housekeeping.roll_up, lambda: ROLL_UP_SECONDS / 2)


@shared_task(base=PeriodicTask, name=BULK)
def work_on_bulk_actions() -> dict[str, int] | None:
    """Run bulk actions for a few seconds, and request another run while any is left; None when one
    runs already."""
    if not housekeeping.claim("bulk", every=bulk_runner.SLICE_SECONDS):
        return None
    with periodic_jobs.shown_running("bulk"):
        changed = bulk_runner.run()
    housekeeping.release("bulk", bulk_runner.SLICE_SECONDS)
    bulk_runner.notify_if_due()
    return {"changed": changed}


@shared_task(name=retention.TASK, send_events=False)
def prune_executions() -> dict[str, int] | None:
    """Another slice of retention; None when one runs already."""
    if not housekeeping.claim("retention", every=retention.SLICE_SECONDS / 2):
        return None
    with periodic_jobs.shown_running("retention"):
        return retention.run_slice()
