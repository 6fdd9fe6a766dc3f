"""Celery entry points of the chores, and when beat sends them.

They send no task events: what Flower counts are steps, one task an attempt. Their results are in the
result backend, where the admin shows them.
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
"""Seconds between roll-ups: how far the figures of minutes lag, beside the minute itself and its grace."""


@shared_task(name="queuemgr.tick", send_events=False)
def tick() -> dict[str, int] | None:
    """Expire and dispatch; None when another did it just now."""
    due = housekeeping.claim("tick", every=queue_settings().poll_interval / 2)
    return housekeeping.tick() if due else None


@shared_task(name="queuemgr.seed", send_events=False)
def backfill() -> dict[str, int] | None:
    """Make known items into executions."""
    due = housekeeping.claim("seed", every=queue_settings().stale_interval / 2)
    return housekeeping.backfill() if due else None


@shared_task(name="queuemgr.prune", send_events=False)
def prune() -> dict[str, int] | None:
    """Forget what is old."""
    due = housekeeping.claim("prune", every=queue_settings().stale_interval / 2)
    return housekeeping.prune() if due else None


@shared_task(name="queuemgr.roll_up", send_events=False)
def roll_up() -> dict[str, int] | None:
    """Roll up the minutes that are over."""
    due = housekeeping.claim(minute_stats.JOB, every=ROLL_UP_SECONDS / 2)
    return housekeeping.roll_up() if due else None


@shared_task(name=BULK, send_events=False)
def work_on_bulk_actions() -> dict[str, int] | None:
    """A slice of bulk actions, and a message for the next while there is more; None when another is
    at it."""
    if not housekeeping.claim("bulk", every=bulk_runner.SLICE_SECONDS):
        return None
    changed = bulk_runner.run()
    housekeeping.release("bulk", bulk_runner.SLICE_SECONDS)
    bulk_runner.ask_if_due()
    return {"changed": changed}


def beat_schedule() -> dict[str, Any]:
    """The chores for `beat_schedule`. Messages beat could not get delivered expire, not pile up.

    A beat that remembers no last run sends all of them at once: when each was really done is in the
    database, where it is claimed.
    """
    config = queue_settings()
    chores = {
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
        for name, every in chores.items()
    }
