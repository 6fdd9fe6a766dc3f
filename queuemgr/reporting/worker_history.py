"""What a worker did lately: attempts by step and their run times, beside those of the whole fleet.

Of the last hour, the newest attempts, by index and bounded: its cost does not grow with the table.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from queuemgr.base import histogram
from queuemgr.models import NOT_COUNTED_AS_ATTEMPT, Attempt, Lease, Outcome

SPAN = timedelta(hours=1)
MAX_ATTEMPTS = 20_000
MOST_RUNNING = 100


class RunTimes(NamedTuple):
    """Seconds; None where nothing ended."""

    p50: float | None
    p95: float | None


@dataclass(frozen=True)
class StepHistory:
    """The attempts of a worker at one step; `of_all`: the run times of every worker at it."""

    step: str
    done: int
    retried: int
    failed: int
    ran: RunTimes
    of_all: RunTimes


@dataclass(frozen=True)
class WorkerHistory:
    """`since`: from when on all attempts of the fleet were read."""

    since: datetime
    steps: tuple[StepHistory, ...]
    total: StepHistory


def of_worker(name: str, now: datetime) -> WorkerHistory:
    """The last hour of the worker of this name, by step; the steps on which it spent most attempts first."""
    newest = Attempt.objects.filter(ended_at__gt=now - SPAN).order_by("-ended_at")
    columns = ("worker", "phase", "step", "outcome", "started_at", "ended_at")
    read = list(newest.values_list(*columns)[: MAX_ATTEMPTS + 1])
    since = read[-1][-1] if len(read) > MAX_ATTEMPTS else now - SPAN
    outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    own: defaultdict[str, list[int]] = defaultdict(histogram.empty)
    everyone: defaultdict[str, list[int]] = defaultdict(histogram.empty)
    for worker, phase, step, outcome, started_at, ended_at in read:
        if outcome not in NOT_COUNTED_AS_ATTEMPT:
            at, seconds = f"{phase}/{step}", (ended_at - started_at).total_seconds()
            histogram.count_into(everyone[at], seconds)
            if worker == name:
                outcomes[at][outcome] += 1
                histogram.count_into(own[at], seconds)
    steps = [_step(at, outcomes[at], own[at], everyone[at]) for at in outcomes]
    steps.sort(key=lambda step: (-outcomes[step.step].total(), step.step))
    sums: Counter[str] = sum(outcomes.values(), Counter())
    whole = histogram.merge(own.values())
    theirs = histogram.merge(everyone[at] for at in outcomes)
    return WorkerHistory(since, tuple(steps), _step("all", sums, whole, theirs))


def running(worker_id: int) -> list[Lease]:
    """What this run of a worker has leased and begun, the longest first."""
    leases = Lease.objects.filter(worker=worker_id).select_related("execution").order_by("started_at", "pk")
    names = ("payload", "context", "result")
    return list(leases.defer(*(f"execution__{name}" for name in names))[:MOST_RUNNING])


def _step(at: str, outcomes: Counter[str], own: list[int], everyone: list[int]) -> StepHistory:
    done = outcomes[Outcome.DONE] + outcomes[Outcome.SKIPPED]
    failed = outcomes[Outcome.FAILED]
    return StepHistory(at, done, outcomes.total() - done - failed, failed, _times(own), _times(everyone))


def _times(counts: list[int]) -> RunTimes:
    return RunTimes(histogram.percentile(counts, 0.5), histogram.percentile(counts, 0.95))
