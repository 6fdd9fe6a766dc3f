"""Totals of a run, recorded or replayed: throughput, waits, makespan, requests. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil
from statistics import median
from typing import NamedTuple

from queuemgr.base import meters
from queuemgr.base.budget_day import day_of
from queuemgr.flows.flow import PRIORITY_NAMES
from queuemgr.reporting.replay.recording import RecordedAttempt, Recording
from queuemgr.reporting.replay.simulation import Replayed

GOOD = frozenset({"done", "skipped"})
"""Outcomes that count as work done."""


@dataclass(frozen=True, slots=True)
class Waits:
    """How long attempts of one priority waited from falling due to their start, in seconds. The percentile
    is by nearest rank: a wait that happened."""

    count: int
    median: float
    p95: float
    longest: float


@dataclass(frozen=True)
class Tally:
    """Totals of one run. `makespan` is seconds from the first arrival to the last end; `per_hour` the
    attempts done or skipped in an hour of it; `requests` by day; `used` of other meters by day, in their
    smallest parts; `stopped_by_budget` the attempts a budget or a calendar allowance stopped for a while
    (None: not recorded); `never` those that could not start at all, by the reason.
    """

    attempts: int
    per_hour: float
    makespan: float
    waits: Mapping[str, Waits]
    requests: Mapping[str, int]
    used: Mapping[str, Mapping[str, int]]
    stopped_by_budget: int | None = None
    never: Mapping[str, int] = field(default_factory=dict)


class _Run(NamedTuple):
    """One attempt, and when it waited, started and ended in this run."""

    attempt: RecordedAttempt
    due_at: datetime
    started_at: datetime
    ended_at: datetime


def tally(recorded: Recording, zone: str, replayed: Replayed | None = None) -> Tally:
    """Totals of a replay, or of what was recorded; days are those of the time zone."""
    runs = list(_runs(recorded, replayed))
    began = min(map(recorded.arrives_at, recorded.firsts), default=recorded.since)
    makespan = (max((r.ended_at for r in runs), default=began) - began).total_seconds()
    good = sum(r.attempt.outcome in GOOD for r in runs)
    return Tally(
        attempts=len(runs),
        per_hour=good * 3600 / makespan if makespan else 0.0,
        makespan=makespan,
        waits=_waits(runs),
        requests=_requests(runs, zone),
        used=_used(runs, zone),
        stopped_by_budget=sum(r.stopped_by_budget for r in replayed.runs.values()) if replayed else None,
        never=dict(Counter(replayed.never_started if replayed else ())),
    )


def _runs(recorded: Recording, replayed: Replayed | None) -> Iterable[_Run]:
    if replayed is None:
        return (_Run(a, a.due_at, a.started_at, a.ended_at) for a in (p.attempt for p in recorded.pieces))
    return (
        _Run(recorded.pieces[index].attempt, run.due_at, run.started_at, run.ended_at)
        for index, run in replayed.runs.items()
        if run.started_at and run.ended_at
    )


def _waits(runs: Iterable[_Run]) -> dict[str, Waits]:
    by_class: dict[int, list[float]] = defaultdict(list)
    for r in runs:
        by_class[r.attempt.priority].append(max(0.0, (r.started_at - r.due_at).total_seconds()))
    by_priority = {}
    for rank, waits in sorted(by_class.items()):
        waits.sort()
        p95 = waits[max(0, ceil(0.95 * len(waits)) - 1)]
        by_priority[PRIORITY_NAMES[rank]] = Waits(len(waits), median(waits), p95, waits[-1])
    return by_priority


def _requests(runs: Iterable[_Run], zone: str) -> dict[str, int]:
    spent: Counter[str] = Counter()
    for r in runs:
        if r.attempt.cost:
            spent[day_of(r.started_at, zone).isoformat()] += r.attempt.cost
    return dict(sorted(spent.items()))


def _used(runs: Iterable[_Run], zone: str) -> dict[str, dict[str, int]]:
    by_day: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for r in runs:
        if amounts := meters.amounts_read(r.attempt.uses):
            by_day[day_of(r.started_at, zone).isoformat()].update(amounts)
    return {day: dict(sorted(amounts.items())) for day, amounts in sorted(by_day.items())}
