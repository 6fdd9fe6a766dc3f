"""The figures of a run of work, recorded or replayed: speed, waits, makespan, requests. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil
from statistics import median

from queuemgr.base.budget_day import day_of
from queuemgr.flows.flow import PRIORITY_NAMES
from queuemgr.reporting.replay.recording import Recorded, Recording
from queuemgr.reporting.replay.simulation import Replayed

GOOD = frozenset({"done", "skipped"})
"""Outcomes that count as work done."""


@dataclass(frozen=True, slots=True)
class Waits:
    """How long work of one class waited from falling due to its start, in seconds."""

    count: int
    median: float
    p95: float
    longest: float


@dataclass(frozen=True)
class Tally:
    """What a run came to. `makespan` is seconds from the first arrival to the last end; `per_hour` the
    steps done well in an hour of it; `stopped_by_budget` the attempts a budget stopped for a while
    (None: not recorded); `never` those that could not start at all, by the reason.
    """

    attempts: int
    per_hour: float
    makespan: float
    waits: Mapping[str, Waits]
    requests: Mapping[str, int]
    stopped_by_budget: int | None = None
    never: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Went:
    """One attempt, and when it waited, started and ended in this run."""

    attempt: Recorded
    due_at: datetime
    started_at: datetime
    ended_at: datetime


def of_record(recorded: Recording, zone: str) -> Tally:
    """The figures of what was recorded; days are those of the time zone."""
    went = [
        _Went(p.attempt, p.attempt.due_at, p.attempt.started_at, p.attempt.ended_at)
        for p in recorded.pieces
    ]
    return _tally(recorded, went, zone)


def of_replay(recorded: Recording, replayed: Replayed, zone: str) -> Tally:
    """The figures of a replay."""
    went = [
        _Went(recorded.pieces[place].attempt, run.due_at, run.started_at, run.ended_at)
        for place, run in replayed.runs.items()
        if run.started_at and run.ended_at
    ]
    stopped = sum(run.stopped_by_budget for run in replayed.runs.values())
    return _tally(recorded, went, zone, stopped, Counter(replayed.never))


def _tally(
    recorded: Recording,
    went: Sequence[_Went],
    zone: str,
    stopped: int | None = None,
    never: Mapping[str, int] | None = None,
) -> Tally:
    began = min((recorded.arrives_at(place) for place in recorded.firsts), default=recorded.since)
    ended = max((w.ended_at for w in went), default=began)
    makespan = (ended - began).total_seconds()
    good = sum(w.attempt.outcome in GOOD for w in went)
    return Tally(
        attempts=len(went),
        per_hour=good * 3600 / makespan if makespan else 0.0,
        makespan=makespan,
        waits=_waits(went),
        requests=_requests(went, zone),
        stopped_by_budget=stopped,
        never=never or {},
    )


def _waits(went: Iterable[_Went]) -> dict[str, Waits]:
    by_class: dict[int, list[float]] = defaultdict(list)
    for w in went:
        waited = (w.started_at - w.due_at).total_seconds()
        by_class[w.attempt.priority].append(max(0.0, waited))
    return {PRIORITY_NAMES[rank]: _of(sorted(by_class[rank])) for rank in sorted(by_class)}


def _of(waits: list[float]) -> Waits:
    """Percentiles by nearest rank: each is a wait that happened."""
    p95 = waits[max(0, ceil(0.95 * len(waits)) - 1)]
    return Waits(len(waits), median(waits), p95, waits[-1])


def _requests(went: Iterable[_Went], zone: str) -> dict[str, int]:
    spent: Counter[str] = Counter()
    for w in went:
        if w.attempt.cost:
            spent[day_of(w.started_at, zone).isoformat()] += w.attempt.cost
    return dict(sorted(spent.items()))
