"""The retry budget: at most a percentage of starts may be retries after a failure.

Counted over a sliding window: the attempts that ended in it and the leases held now. The first few
retries of a window are always allowed, or a small run could never retry.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from queuemgr.base import sql
from queuemgr.base.config import queue_settings
from queuemgr.scheduling.decision_input import RETRY_WINDOW, RetryBudget

_FIRST = "SELECT id FROM queuemgr_attempt WHERE ended_at > %s ORDER BY ended_at LIMIT 1"
_LAST = "SELECT MAX(id) FROM queuemgr_attempt"
_RETRIES = """
    SELECT COUNT(*) FROM (
        SELECT 1 FROM queuemgr_attempt WHERE retrying AND id >= %s LIMIT 100000) AS retries
"""
_HELD = "SELECT COUNT(*), COALESCE(SUM(CASE WHEN retrying THEN 1 ELSE 0 END), 0) FROM queuemgr_lease"


def left(now: datetime) -> RetryBudget | None:
    """How many more retries may start at `now`; None if there is no retry budget."""
    percent = queue_settings().retry_percent
    if percent >= 100:
        return None
    started = _started(now)
    return RetryBudget.of(percent, started.starts, started.retries, now)


class _Started(NamedTuple):
    """Starts in the window, and how many of them were retries."""

    starts: int
    retries: int


def _started(now: datetime) -> _Started:
    """Count the starts in the window from its first and last attempt ids, which ascend as attempts end."""
    (held,) = sql.rows(_Started, _HELD)
    first = sql.column(_FIRST, [now - RETRY_WINDOW])
    if not first:
        return held
    ended = sql.value(_LAST) - first[0] + 1
    return _Started(held.starts + ended, held.retries + sql.value(_RETRIES, first))
