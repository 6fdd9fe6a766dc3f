"""Failed executions grouped by error kind and fingerprint, and the trend of each kind.

The index `execution_failures` is scanned from group to group, and each group is counted up to its share of
`MAX_COUNTED` entries, so the cost is bounded however many executions failed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Sum
from django.db.models.functions import TruncHour

from queuemgr.base import sql
from queuemgr.base.queue_database import connection
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import Execution, MinuteStats

MAX_GROUPS = 500
PER_KIND = 50
"""Fingerprints listed of one kind, so that one kind cannot hide the others."""

MAX_COUNTED = 250_000
"""Entries of the index read to count all groups; each group is counted up to its share of it."""

MAX_NEWEST = 100
"""A group's last failure is searched among so many of its newest executions."""


@dataclass(frozen=True)
class FailureGroup:
    """Failed executions with one error kind and fingerprint; `more`: the count is a lower bound.

    The sample is the newest execution of the group; `last_at` is its last failure.
    """

    kind: str
    fingerprint: str
    count: int
    more: bool
    sample_id: int
    sample_key: str
    sample_message: str
    last_at: datetime | None


@dataclass(frozen=True)
class Trend:
    """Failed attempts of one kind, retried or not, by hour; the last hour is incomplete."""

    kind: str
    hours: Sequence[int]

    @property
    def total(self) -> int:
        return sum(self.hours)


def groups(limit: int = 50) -> list[FailureGroup]:
    """The largest groups of failed executions, as far as each is counted."""
    by_index = "INDEXED BY execution_failures" if connection.vendor == "sqlite" else ""
    heads = sql.column(_HEADS.format(by_index=by_index), [PER_KIND, PER_KIND, MAX_GROUPS])
    if not heads:
        return []
    share = max(1, MAX_COUNTED // len(heads))
    counted = sql.rows(_Counted, _COUNTS.format(heads=sql.marks(len(heads))), [share + 1, *heads])
    largest = sorted(counted, key=lambda group: (-group.failed, group.kind, group.fingerprint))[:limit]
    newest = [group.newest for group in largest]
    samples = Execution.objects.only("key", "error_message").in_bulk(newest)
    last = sql.rows(_Last, _LAST.format(newest=sql.marks(len(newest))), [MAX_NEWEST, *newest])
    last_at = {row.newest: row.at for row in last}
    return [
        FailureGroup(
            kind=group.kind,
            fingerprint=group.fingerprint,
            count=min(group.failed, share),
            more=group.failed > share,
            sample_id=group.newest,
            sample_key=samples[group.newest].key,
            sample_message=samples[group.newest].error_message,
            last_at=last_at.get(group.newest),
        )
        for group in largest
        if group.newest in samples
    ]


class _Counted(NamedTuple):
    """A group: how many of it failed, counted up to its share, and its newest execution."""

    kind: str
    fingerprint: str
    failed: int
    newest: int


class _Last(NamedTuple):
    """The last failure of a group, named by its newest execution."""

    newest: int
    at: datetime | None


def trends() -> list[Trend]:
    """Failed attempts of each kind in each of the last 24 hours, from the minute rollups; most failures
    first."""
    last = database_now().replace(minute=0, second=0, microsecond=0)
    first = last - timedelta(hours=23)
    counts_of: Mapping[str, list[int]] = defaultdict(lambda: [0] * 24)
    failed = MinuteStats.objects.attempts_only().filter(minute__gte=first).exclude(error_kind="").order_by()
    by_hour = failed.values_list("error_kind", TruncHour("minute")).annotate(failed=Sum("attempts"))
    for kind, hour, count in by_hour:
        at = (hour - first) // timedelta(hours=1)
        if 0 <= at < 24:
            counts_of[kind][at] += count
    return sorted((Trend(kind, counts) for kind, counts in counts_of.items()), key=lambda t: -t.total)


_NEXT_OF_KIND = """
    (SELECT x.id FROM queuemgr_execution x {by_index}
      WHERE x.state = 'failed' AND x.error_kind = c.error_kind
        AND x.error_fingerprint > c.error_fingerprint AND h.nth < %s
      ORDER BY x.error_fingerprint, x.id LIMIT 1)
"""
_FIRST_OF_NEXT_KIND = """
    (SELECT x.id FROM queuemgr_execution x {by_index}
      WHERE x.state = 'failed' AND x.error_kind > c.error_kind
      ORDER BY x.error_kind, x.error_fingerprint, x.id LIMIT 1)
"""
_HEADS = f"""
    WITH RECURSIVE heads(id, nth) AS (
        SELECT id, 1
          FROM (SELECT id FROM queuemgr_execution {{by_index}} WHERE state = 'failed'
                 ORDER BY error_kind, error_fingerprint, id LIMIT 1) AS lowest
        UNION ALL
        SELECT COALESCE({_NEXT_OF_KIND}, {_FIRST_OF_NEXT_KIND}),
               CASE WHEN {_NEXT_OF_KIND} IS NULL THEN 1 ELSE h.nth + 1 END
          FROM heads h JOIN queuemgr_execution c ON c.id = h.id)
    SELECT id FROM heads WHERE id IS NOT NULL LIMIT %s
"""
"""The first execution of each group: two or three index lookups a group. The next one is selected, not
joined: with stale statistics PostgreSQL looked it up once for every row of the table. SQLite, which keeps
no statistics of indexes, is given its name."""

_OF_GROUP = """state = 'failed' AND error_kind = h.error_kind
                         AND error_fingerprint = h.error_fingerprint"""

_COUNTS = f"""
    SELECT h.error_kind, h.error_fingerprint,
           (SELECT COUNT(*) FROM (SELECT 1 FROM queuemgr_execution
                                   WHERE {_OF_GROUP} LIMIT %s) AS counted),
           (SELECT MAX(id) FROM queuemgr_execution WHERE {_OF_GROUP})
      FROM queuemgr_execution h WHERE h.id IN ({{heads}})
"""

_LAST = f"""
    SELECT h.id, (SELECT MAX(finished_at) FROM
                   (SELECT finished_at FROM queuemgr_execution
                     WHERE {_OF_GROUP} ORDER BY id DESC LIMIT %s) AS latest)
      FROM queuemgr_execution h WHERE h.id IN ({{newest}})
"""
