"""Counts events that should be rare and leave no attempt, in the transaction that noticed them.

They are counted in the minute statistics under the outcome `anomaly`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from queuemgr.base import sql
from queuemgr.lifecycle.minute_stats import whole_minute
from queuemgr.models import ALL_TIME, ANOMALY, Priority

MESSAGE_REFUSED = "message_refused"
"""A message whose lease was started, ended or expired: a second delivery, or a very late one."""

OUTCOME_REFUSED = "outcome_refused"
"""The end of a step whose lease is no longer held: it ran on after the lease had expired."""

LEASE_EXPIRED_UNSTARTED = "lease_expired_unstarted"
"""A lease that expired before a worker started it: its message was lost, or no worker was free."""

MESSAGE_UNREADABLE = "message_unreadable"
"""A message of the broker that is no message of ours: not JSON, wrong headers, an unknown task."""

KINDS = (MESSAGE_REFUSED, OUTCOME_REFUSED, LEASE_EXPIRED_UNSTARTED, MESSAGE_UNREADABLE)

_ADD = """
    INSERT INTO queuemgr_minute (minute, phase, priority, outcome, error_kind, attempts, cost, waited, ran)
    VALUES {rows}
    ON CONFLICT (minute, phase, priority, outcome, error_kind)
    DO UPDATE SET attempts = queuemgr_minute.attempts + excluded.attempts
"""
_ROW = f"(%s, '', {Priority.NORMAL.value}, '{ANOMALY}', %s, %s, 0, '[]', '[]')"


def count(kind: str, count: int, now: datetime) -> None:
    """Add to the anomalies of a kind; writes nothing for a count of zero."""
    if count:
        _add([(ALL_TIME, kind, count), (whole_minute(now), kind, count)])


def add_to_sums(counts: Mapping[str, int]) -> None:
    """Add to the sums of all time, of other kinds than anomalies too, in one order: or two processes that add
    to the same could deadlock."""
    if counts:
        _add([(ALL_TIME, kind, count) for kind, count in sorted(counts.items())])


def _add(rows: Sequence[tuple[datetime, str, int]]) -> None:
    sql.run(_ADD.format(rows=", ".join([_ROW] * len(rows))), [value for row in rows for value in row])
