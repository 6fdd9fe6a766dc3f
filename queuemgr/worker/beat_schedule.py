"""The schedule on which beat sends the periodic jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from queuemgr.flows.flow import HOUSEKEEPING
from queuemgr.lifecycle import periodic_jobs


def beat_schedule() -> dict[str, Any]:
    """The periodic jobs, as Celery's `beat_schedule`. Messages that are not delivered in time expire.

    The last run is set in the far past, so that a new beat sends every job at once; the job itself
    checks in the database when it last ran.
    """
    return {
        f"queuemgr.{name}": {
            "task": f"queuemgr.{name}",
            "schedule": every,
            "last_run_at": datetime.fromtimestamp(0, UTC),
            "options": {"queue": HOUSEKEEPING, "expires": every},
        }
        for name, every in periodic_jobs.periods().items()
    }
