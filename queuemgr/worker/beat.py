"""Celery tasks of the periodic jobs, and the schedule on which beat sends them.

They send no task events, so that Flower counts steps only, one task per attempt. Their results are in
the result backend and shown in the admin.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from celery import shared_task

from queuemgr.base.config import queue_settings
from queuemgr.flows.flow import HOUSEKEEPING
from queuemgr.lifecycle import minute_stats
from queuemgr.operations.bulk import TASK as BULK
from queuemgr.operations.bulk import runner as bulk_runner
from queuemgr.worker import housekeeping

ROLL_UP_SECONDS = 30.0
"""Seconds between roll-ups; statistics lag by this, and by the minute they are about and its grace period."""


@shared_task(name="queuemgr.tick", send_events=False)
def tick() -> dict[str, int] | None:
    """Expire leases and dispatch; None when it ran just now elsewhere."""
    due = housekeeping.claim("tick", every=queue_settings().poll_interval / 2)
    return housekeeping.tick() if due else None


@shared_task(name="queuemgr.seed", send_events=False)
def backfill() -> dict[str, int] | None:
    """Enqueue items the flows know of."""
    due = housekeeping.claim("seed", every=queue_settings().stale_interval / 2)
    return housekeeping.backfill() if due else None


@shared_task(name="queuemgr.prune", send_events=False)
def prune() -> dict[str, int] | None:
    """Delete old rows."""
    due = housekeeping.claim("prune", every=queue_settings().stale_interval / 2)
    return housekeeping.prune() if due else None


@shared_task(name="queuemgr.roll_up", send_events=False)
def roll_up() -> dict[str, int] | None:
    """Roll up finished minutes into statistics."""
    due = housekeeping.claim(minute_stats.JOB, every=ROLL_UP_SECONDS / 2)
    return housekeeping.roll_up() if due else None


@shared_task(name=BULK, send_events=False)
def work_on_bulk_actions() -> dict[str, int] | None:
    """Run bulk actions for a few seconds, and request another run while any is left; None when one
    runs already."""
    if not housekeeping.claim("bulk", every=bulk_runner.SLICE_SECONDS):
        return None
    changed = bulk_runner.run()
    housekeeping.release("bulk", bulk_runner.SLICE_SECONDS)
    bulk_runner.notify_if_due()
    return {"changed": changed}


def beat_schedule() -> dict[str, Any]:
    """The periodic jobs, as Celery's `beat_schedule`. Messages that are not delivered in time expire.

    The last run is set in the far past, so that a new beat sends every job at once; the job itself
    checks in the database when it last ran.
    """
    config = queue_settings()
    periods = {
        "tick": config.poll_interval,
        "seed": config.stale_interval,
        "prune": 10 * config.stale_interval,
        "roll_up": ROLL_UP_SECONDS,
    }
    return {
        name: {
            "task": f"queuemgr.{name}",
            "schedule": every,
            "last_run_at": datetime.fromtimestamp(0, UTC),
            "options": {"queue": HOUSEKEEPING, "expires": every},
        }
        for name, every in periods.items()
    }
