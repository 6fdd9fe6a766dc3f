"""Every due time of a schedule has one run, and every run one execution, or a reason that holds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from proof.periodic import PERIODIC, Periodic
from proof.records import History, ScheduledRun, is_periodic
from proof.rules.standstill import QUIET_BOUND, excused_until
from proof.rules.violation import Violation

ON_TIME_SECONDS = 60.0
"""How late a due time may be looked at and still count as on time."""

EXACT = 0.001


def each_due_time_has_one_run(history: History) -> Iterator[Violation]:
    """The due times of a schedule follow each other by its period, none left out and none twice; where it is
    counted from the end of a run, no run comes before the one before it has ended for so long."""
    by_name: defaultdict[str, list[ScheduledRun]] = defaultdict(list)
    for run in history.scheduled:
        by_name[run.schedule].append(run)
    retried = {order.key for order in history.orders if order.verb == "retry"}
    for periodic in PERIODIC:
        runs = sorted(by_name[periodic.name], key=lambda run: run.due)
        if history.scheduled and not runs:
            yield Violation("schedules", f"{periodic.name} never ran")
        yield from _wrong_steps(periodic, runs, retried)


def _wrong_steps(
    periodic: Periodic, runs: Sequence[ScheduledRun], retried: Collection[str]
) -> Iterator[Violation]:
    """A run that a person retried may have ended twice, and what follows is counted from the first time."""
    for earlier, later in pairwise(runs):
        since = earlier.ended if periodic.from_end else earlier.last
        if periodic.from_end and earlier.key in retried:
            continue
        apart = periodic.seconds if since is None else later.due - since
        if not periodic.from_end and abs(apart - periodic.seconds) > EXACT:
            what = "twice or too early" if apart < periodic.seconds else "missing"
            yield Violation("schedules", f"{periodic.name}: {what}, {apart:.3f} s after {earlier.last:.0f}")
        elif periodic.from_end and apart < periodic.seconds - EXACT and earlier.outcome == "enqueued":
            yield Violation("schedules", f"{periodic.name}: due {apart:.3f} s after the end of a run")


def each_run_has_one_execution(history: History) -> Iterator[Violation]:
    """Each run that was enqueued has one execution of its own, and no execution of a schedule has none."""
    runs = Counter(run.key for run in history.scheduled if run.outcome == "enqueued")
    there = Counter(execution.key for execution in history.executions if is_periodic(execution.key))
    for key in sorted(set(runs) | set(there)):
        if runs[key] != 1 or there[key] != 1:
            text = f"{key or 'an execution that is gone'} has {there[key]} executions and {runs[key]} runs"
            yield Violation("schedules", text)


def left_out_for_a_reason(history: History) -> Iterator[Violation]:
    """A due time is missed only where faults or a step of the clock kept everybody from looking for a minute,
    and skipped only because a person paused its schedule."""
    for run in history.scheduled:
        if run.outcome == "skipped" and not run.reason.startswith("paused by"):
            yield Violation("schedules", f"{run.schedule} was skipped: {run.reason}")
        if run.outcome == "missed" and not _could_not_look(run, history):
            yield Violation(
                "schedules", f"{run.schedule} missed {run.due:.0f} to {run.last:.0f} without cause"
            )


def _could_not_look(run: ScheduledRun, history: History) -> bool:
    """Either the clock was stepped since it fell due, or a pause so long is excused."""
    late = run.decided - ON_TIME_SECONDS
    if any(late - QUIET_BOUND <= step <= run.decided for step in history.steps):
        return True
    return excused_until(history.faults, late, run.decided) + QUIET_BOUND >= run.decided
