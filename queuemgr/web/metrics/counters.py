"""Counters and histograms over all attempts ever, which only grow.

Counters add the all-time sums of rolled-up minutes and the attempts since, in one statement, so that each
attempt is counted once even while its minute is rolled up or pruned. Histograms are of the sums alone,
and up to two minutes late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import product
from typing import NamedTuple

from queuemgr.base import histogram, meters, sql
from queuemgr.flows.flow import PRIORITY_NAMES, all_phases
from queuemgr.lifecycle import anomalies, lock_holds, minute_stats
from queuemgr.models import ALL_TIME, ANOMALY, MinuteStats, Outcome
from queuemgr.reporting.amounts_sql import each_amount, each_stored, summed
from queuemgr.scheduling import retry_policies
from queuemgr.web.metrics.definitions import Sample

TOO_FAR_BEHIND = timedelta(minutes=15)
"""Counters are omitted while the roll-up lags further: counting the rest would take long, and omitting
it would make them fall."""

RUNNING = "running"

OTHER = "other"
"""The label of error kinds that nobody declared."""

ANY_KIND = (Outcome.FAILED, Outcome.RETRIED, Outcome.CANCELLED)
"""Outcomes of attempts that failed, or were cancelled when they did: with an error kind, whichever."""

KINDS_OF: Mapping[str, list[str]] = {Outcome.LOST: ["", "poison"]}
"""Of the other outcomes, the ones that may have one."""

_TOTALS = """
    SELECT phase, priority, outcome, error_kind, SUM(counted), SUM(cost) FROM (
        SELECT phase, priority, outcome, error_kind, attempts AS counted, cost
          FROM queuemgr_minute WHERE minute = %s
     UNION ALL
        SELECT phase, priority, outcome, error_kind, -attempts, -cost
          FROM queuemgr_minute WHERE minute >= %s AND minute > %s AND outcome <> 'anomaly'
     UNION ALL
        SELECT phase, priority, outcome, error_kind, COUNT(*), SUM(cost)
          FROM queuemgr_attempt WHERE ended_at >= %s GROUP BY phase, priority, outcome, error_kind
     UNION ALL
        SELECT phase, priority, 'running', '', COUNT(*), 0
          FROM queuemgr_lease WHERE started_at IS NOT NULL GROUP BY phase, priority
    ) counted GROUP BY phase, priority, outcome, error_kind
"""


_USED = """
    SELECT phase, meter, {sum} FROM (
        SELECT m.phase, u.key AS meter, CAST(u.value AS numeric) AS amount
          FROM queuemgr_minute m, {stored} u WHERE m.minute = %s
     UNION ALL
        SELECT m.phase, u.key, -CAST(u.value AS numeric)
          FROM queuemgr_minute m, {stored} u WHERE m.minute >= %s AND m.minute > %s
     UNION ALL
        SELECT a.phase, u.key, CAST(u.value AS numeric)
          FROM queuemgr_attempt a, {amounts} u
         WHERE a.ended_at >= %s AND a.uses <> '' AND u.key NOT IN ('', 'requests')
    ) used GROUP BY phase, meter
"""
"""As the other counters: the sums of all time, without the newest minutes, and the attempts since."""


class _Used(NamedTuple):
    phase: str
    meter: str
    amount: int


class _Total(NamedTuple):
    phase: str
    priority: int
    outcome: str
    error_kind: str
    counted: int
    cost: int


def samples(now: datetime) -> Iterator[Sample]:
    """Counters, unless the roll-up lags too far, and histograms."""
    oldest = minute_stats.oldest_pending()
    lag = max(now - oldest, timedelta()) if oldest else timedelta()
    yield Sample("sluicegate_rollup_lag_seconds", (), lag.total_seconds())
    if lag <= TOO_FAR_BEHIND:
        yield from _counters(minute_stats.complete_to() or ALL_TIME)
    yield from _histograms()


def _counters(rolled_up_to: datetime) -> Iterator[Sample]:
    known, phases = set(retry_policies.kinds()), list(all_phases())
    starts = Counter({(phase, rank): 0 for phase in phases for rank in PRIORITY_NAMES})
    requests = Counter(dict.fromkeys(phases, 0))
    ended = Counter(dict.fromkeys(endings(phases, known), 0))
    anomaly_counts = Counter(dict.fromkeys(anomalies.KINDS, 0))
    for row in sql.rows(_Total, _TOTALS, [ALL_TIME, rolled_up_to, ALL_TIME, rolled_up_to]):
        if row.outcome == ANOMALY:
            anomaly_counts[row.error_kind] += int(row.counted)
            continue
        starts[row.phase, row.priority] += int(row.counted)
        requests[row.phase] += int(row.cost)
        if row.outcome != RUNNING:
            labels = (row.phase, _priority(row.priority), row.outcome, bounded(row.error_kind, known))
            ended[labels] += int(row.counted)
    for (phase, rank), count in starts.items():
        yield Sample("sluicegate_starts_total", (phase, _priority(rank)), count)
    for labels, count in sorted(ended.items()):
        yield Sample("sluicegate_attempts_total", labels, count)
    for phase, cost in requests.items():
        yield Sample("sluicegate_requests_total", (phase,), cost)
    yield from _usage(rolled_up_to, requests)
    yield Sample("sluicegate_messages_refused_total", (), anomaly_counts[anomalies.MESSAGE_REFUSED])
    yield Sample("sluicegate_messages_unreadable_total", (), anomaly_counts[anomalies.MESSAGE_UNREADABLE])
    yield Sample("sluicegate_outcomes_refused_total", (), anomaly_counts[anomalies.OUTCOME_REFUSED])
    holds = lock_holds.holds_of(anomaly_counts)
    yield Sample("sluicegate_scheduler_lock_hold_seconds", (), holds.counts, holds.seconds)
    yield Sample(
        "sluicegate_leases_expired_unstarted_total", (), anomaly_counts[anomalies.LEASE_EXPIRED_UNSTARTED]
    )


def _usage(rolled_up_to: datetime, requests: Mapping[str, int]) -> Iterator[Sample]:
    """Of each meter, in its unit; requests are counted with the attempts."""
    used = Counter(dict.fromkeys(product(requests, meters.meters()), 0))
    used.update({(phase, meters.REQUESTS): number for phase, number in requests.items()})
    statement = _USED.format(sum=summed("amount"), stored=each_stored("m.used"), amounts=each_amount())
    for row in sql.rows(_Used, statement, [ALL_TIME, rolled_up_to, ALL_TIME, rolled_up_to]):
        used[row.phase, row.meter] += int(row.amount)
    for (phase, name), amount in sorted(used.items()):
        meter = meters.meter_or_plain(name)
        yield Sample("sluicegate_usage_total", (phase, meter.name), amount / meter.scale)


def endings(phases: Iterable[str], kinds: Collection[str]) -> Iterator[tuple[str, str, str, str]]:
    """Every label set of ended attempts that this deployment can have, so that each series starts at 0:
    the `increase()` of one that is first seen at 30 is nothing."""
    failures = ["", *sorted({*kinds, OTHER})]
    for phase, priority, outcome in product(phases, PRIORITY_NAMES.values(), Outcome.values):
        for kind in failures if outcome in ANY_KIND else KINDS_OF.get(outcome, [""]):
            yield phase, priority, outcome, kind


def _histograms() -> Iterator[Sample]:
    waited: dict[tuple[str, str], list[list[int]]] = {}
    ran: dict[str, list[list[int]]] = {}
    for phase in all_phases():
        ran[phase] = []
        waited |= {(phase, priority): [] for priority in PRIORITY_NAMES.values()}
    sums = MinuteStats.objects.all_time().attempts_only().values_list("phase", "priority", "waited", "ran")
    for phase, rank, waits, runs in sums:
        waited.setdefault((phase, _priority(rank)), []).append(waits)
        ran.setdefault(phase, []).append(runs)
    for labels, many in sorted(waited.items()):
        yield Sample("sluicegate_wait_seconds", labels, histogram.merge(many))
    for phase, many in sorted(ran.items()):
        yield Sample("sluicegate_run_seconds", (phase,), histogram.merge(many))


def bounded(kind: str, known: Collection[str]) -> str:
    """A declared error kind, or `other`."""
    return kind if not kind or kind in known else OTHER


def _priority(rank: int) -> str:
    return PRIORITY_NAMES.get(rank, str(rank))
