"""How far a fleet is with its work: asked of the database over a plain connection, seldom, so that asking
costs the fleet little."""

from __future__ import annotations

import time
from datetime import datetime

from bench.databases import Database

PATIENCE = 600
"""Seconds after which a run that has not ended counts as stuck."""


def wait_until_done(database: Database, count: int) -> int:
    """Returns how many are done, which may be a few more."""
    deadline = time.monotonic() + PATIENCE
    while (done := ended(database)) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{done} of {count} done after {PATIENCE} s")
        time.sleep(0.25)
    return done


def ended(database: Database) -> int:
    """How many attempts have ended."""
    return int(database.rows("SELECT COUNT(*) FROM queuemgr_attempt")[0][0])


def rate(database: Database) -> float:
    """Attempts a second, from the first start to the last end."""
    [(count, first, last)] = database.rows(
        "SELECT COUNT(*), MIN(started_at), MAX(ended_at) FROM queuemgr_attempt"
    )
    return float(count) / (_moment(last) - _moment(first)).total_seconds()


def _moment(value: str | datetime) -> datetime:
    return datetime.fromisoformat(value) if isinstance(value, str) else value
