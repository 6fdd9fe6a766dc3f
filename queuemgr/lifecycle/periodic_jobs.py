"""The jobs that beat sends: how often, and the row of each, which says when it ran and whether it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.db import DatabaseError

from queuemgr.base.config import queue_settings
from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle import minute_stats
from queuemgr.models import PeriodicJob

ROLL_UP_SECONDS = 30.0
"""Seconds between roll-ups; statistics lag by this, and by the minute they are about and its grace period."""


ALERT_SECONDS = 30.0
"""Seconds between two looks at the dashboard's alarms."""


def periods() -> dict[str, float]:
    """Seconds between the runs of each job, by its name in beat's schedule."""
    config = queue_settings()
    return {
        "tick": config.poll_interval,
        "seed": config.stale_interval,
        "prune": 10 * config.stale_interval,
        "roll_up": ROLL_UP_SECONDS,
        "alerts": ALERT_SECONDS,
    }


def row_of(job: str) -> str:
    """The name of its row."""
    return minute_stats.JOB if job == "roll_up" else job


@contextmanager
def shown_running(row: str) -> Iterator[None]:
    """Say in the job's row since when it runs. What a killed process left there stays until the next run."""
    since = database_now()
    PeriodicJob.objects.filter(name=row).update(running_since=since)
    try:
        yield
    finally:
        with suppress(DatabaseError):
            PeriodicJob.objects.filter(name=row, running_since=since).update(running_since=None)
