"""What should be rare and is no attempt, counted as it happens, in the transaction that met it.

Counted in the rows of minutes under the outcome `anomaly`: no such thing leaves a row of its own.
"""

from __future__ import annotations

from datetime import datetime

from queuemgr.base import sql
from queuemgr.lifecycle.minute_stats import whole_minute
from queuemgr.models import ALL_TIME, ANOMALY, Priority

MESSAGE_REFUSED = "message_refused"
"""A message whose lease had begun, ended or run out before: a second delivery, or one far too late."""

ENDING_REFUSED = "ending_refused"
"""The ending of a lease no longer held: its step ran on after the lease had run out."""

LEASE_UNBEGUN = "lease_unbegun"
"""A lease that ran out before any worker began it: its message was lost, or nobody came for it."""

KINDS = (MESSAGE_REFUSED, ENDING_REFUSED, LEASE_UNBEGUN)

_ADD = """
    INSERT INTO queuemgr_minute (minute, phase, priority, outcome, error_kind, attempts, cost, waited, ran)
    VALUES (%s, '', %s, %s, %s, %s, 0, '[]', '[]'), (%s, '', %s, %s, %s, %s, 0, '[]', '[]')
    ON CONFLICT (minute, phase, priority, outcome, error_kind)
    DO UPDATE SET attempts = queuemgr_minute.attempts + excluded.attempts
"""


def count(kind: str, count: int, now: datetime) -> None:
    """Count so many anomalies of a kind; nothing is written for none."""
    if count:
        same = [Priority.NORMAL.value, ANOMALY, kind, count]
        sql.run(_ADD, [ALL_TIME, *same, whole_minute(now), *same])
