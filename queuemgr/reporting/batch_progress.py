"""Progress of a batch, counted from its members, and its ETA.

The ETA is an estimate: by the rate at which members ended lately or, when none did, by the estimate for its
last waiting member. It ignores what is still to be added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Count

from queuemgr.base import sql
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import HELD, UNFINISHED, Batch, Execution, State
from queuemgr.reporting import explain, queue_position, throughput
from queuemgr.reporting.estimate_ranges import about, with_ranges


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """Members by state; `eta` is when the last is likely to end. Where it is None though some have not
    ended, `unknown` says why."""

    total: int = 0
    waiting: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0
    eta: datetime | None = None
    unknown: str = ""

    @property
    def ended(self) -> int:
        return self.done + self.failed + self.skipped + self.cancelled

    @property
    def unfinished(self) -> int:
        return self.total - self.ended

    @property
    def percent(self) -> int:
        """Ended, rounded down: 100 only when all have."""
        return 100 * self.ended // self.total if self.total else 0

    @property
    def eta_text(self) -> str:
        """The ETA with its range; empty where there is none."""
        return about(self.eta, "end", datetime.now(UTC))

    def as_data(self) -> dict[str, Any]:
        """With stable names, and the range of the ETA."""
        return with_ranges(asdict(self), datetime.now(UTC), eta="end")

    def __str__(self) -> str:
        """As `40 of 100 ended: 38 done, 2 failed; 10 running, 50 waiting`."""
        ends = ("done", "failed", "skipped", "cancelled")
        ended = ", ".join(f"{n:,} {name}" for name in ends if (n := getattr(self, name)))
        open_ = ((self.running, "running"), (self.waiting, "waiting"))
        left = ", ".join(f"{n:,} {name}" for n, name in open_ if n)
        said = f"{self.ended:,} of {self.total:,} ended{f': {ended}' if ended else ''}"
        return f"{said}; {left}" if left else said


def progress(batch: Batch) -> BatchProgress:
    """The progress with the best estimate."""
    counted = progress_of([batch])[batch.pk]
    if not counted.unfinished:
        return counted
    last = batch.executions.waiting().order_by("-batch_seq").first()
    return _with_last(counted, last) if last else counted


def progress_of(batches: Iterable[Batch]) -> Mapping[int, BatchProgress]:
    """The progress of each by its id, in three statements; estimates are by their own rate only."""
    ids = [batch.pk for batch in batches]
    counts: dict[int, Counter[str]] = {pk: Counter() for pk in ids}
    rows = Execution.objects.filter(batch__in=ids).order_by()
    for pk, state, count in rows.values_list("batch_id", "state").annotate(n=Count("*")):
        counts[pk or 0][state] = count
    now = database_now()
    speeds = _speeds([pk for pk, states in counts.items() if states.keys() & {*UNFINISHED}], now)
    return {pk: _progress(states, speeds.get(pk, 0.0), now) for pk, states in counts.items()}


def _progress(states: Counter[str], speed: float, now: datetime) -> BatchProgress:
    progress = BatchProgress(
        total=states.total(),
        waiting=states[State.WAITING],
        running=sum(states[state] for state in HELD),
        done=states[State.DONE],
        failed=states[State.FAILED],
        skipped=states[State.SKIPPED],
        cancelled=states[State.CANCELLED],
    )
    if not progress.unfinished:
        return progress
    seconds = progress.unfinished / speed if speed else float("inf")
    if seconds > queue_position.MAX_AHEAD.total_seconds():
        return replace(progress, unknown="no end to expect: none of it ended in the last hour")
    return replace(progress, eta=now + timedelta(seconds=seconds))


def _with_last(progress: BatchProgress, last: Execution) -> BatchProgress:
    """With the estimate of the last waiting member: none when it is stopped until a person acts, and used
    where the batch has no rate of its own."""
    route_reasons = explain.reasons()
    stopped = queue_position.stopped_for_good(
        last, route_reasons.by_route.get(last.route_id or 0, ()), route_reasons.now
    )
    if stopped:
        return replace(progress, eta=None, unknown=stopped)
    if progress.eta:
        return progress
    estimate = queue_position.estimate(last, route_reasons)
    return replace(progress, eta=estimate.finishes_at, unknown=estimate.unknown) if estimate else progress


_LATELY = """
    SELECT execution_id FROM queuemgr_attempt WHERE ended_at > %s ORDER BY ended_at DESC LIMIT %s
"""
_ENDED = f"""
    SELECT e.batch_id, COUNT(*), MIN(e.finished_at) FROM queuemgr_execution e
     WHERE e.id IN (SELECT execution_id FROM ({_LATELY}) AS lately) AND e.finished_at > %s
       AND e.batch_id IN ({{ids}})
     GROUP BY e.batch_id
"""


class _EndedMembers(NamedTuple):
    batch_id: int
    members: int
    first_at: datetime


def _speeds(batches: list[int], now: datetime) -> dict[int, float]:
    """Members that ended per second, by batch, within the last hour at most."""
    if not batches:
        return {}
    since = now - throughput.HOUR
    statement = _ENDED.format(ids=sql.marks(len(batches)))
    ended = sql.rows(_EndedMembers, statement, [since, throughput.MAX_ATTEMPTS, since, *batches])
    return {
        row.batch_id: row.members / max(throughput.MIN_WINDOW, now - row.first_at).total_seconds()
        for row in ended
    }
