"""Retention: deletes ended executions by state and age, with their attempts and what their flows keep.

A few hundred rows to a transaction, which takes no scheduler lock, with a pause after each as long as the
transaction was. One message does `SLICE_SECONDS` of it and sends the next, so that the tick, which shares
the worker, never waits for a million rows. Statistics stay: nothing is deleted before it is rolled up.

The members of a batch go together, and the batch with them, once it has completed and every member may go:
until then its counts, its window and its results are whole. A batch in another goes once that has completed,
too.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby

from django.db.models import Exists, OuterRef, Q, QuerySet

from queuemgr.base import transaction
from queuemgr.base.config import QueueSettings, queue_settings
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows import callbacks
from queuemgr.flows.callbacks import CallbackFailed
from queuemgr.flows.flow import all_flows, get_flow
from queuemgr.lifecycle import leases, minute_stats, publish, states
from queuemgr.lifecycle.states import Deleted
from queuemgr.models import Batch, Execution, State
from queuemgr.operations.bulk import rate

logger = logging.getLogger(__name__)

TASK = "queuemgr.retention"
SLICE_SECONDS = 2.0

Until = Mapping[str, datetime]
"""By state: executions that ended before this may go. A state that is kept for ever is missing."""


def days_by_state(config: QueueSettings) -> dict[str, float]:
    """Days that ended executions are kept; 0: for ever."""
    return {
        State.DONE: config.keep_done_days,
        State.SKIPPED: config.keep_skipped_days,
        State.CANCELLED: config.keep_cancelled_days,
        State.FAILED: config.keep_failed_days,
    }


def until_by_state(now: datetime) -> Until:
    kept = {state: days for state, days in days_by_state(queue_settings()).items() if days}
    if not kept:
        return {}
    counted = minute_stats.counted_to(now)
    return {str(state): min(counted, now - timedelta(days=days)) for state, days in kept.items()}


@dataclass
class Pruned:
    """How many executions were deleted, by state, and whether more may go."""

    by_state: Counter[str] = field(default_factory=Counter)
    batches: int = 0
    left: bool = False

    def add(self, deleted: Collection[Deleted]) -> int:
        self.by_state.update(row.state for row in deleted)
        return len(deleted)


def prunable(now: datetime) -> dict[str, int]:
    """How many executions may go, by state, members of batches included."""
    until = until_by_state(now)
    counts = {state: _single(state, before).count() for state, before in until.items()}
    for batch in _batches(until):
        for state in batch.executions.values_list("state", flat=True):
            counts[state] += 1
    return counts


def run(seconds: float = SLICE_SECONDS) -> Pruned:
    """Delete for so long what may go; `left` when the time was too short."""
    done, ends = Pruned(), time.monotonic() + seconds
    until = until_by_state(database_now())
    failing: set[str] = set()  # flows whose `forget` failed: theirs stay
    for rows in _selections(until, failing, done):
        size = rate.FEWEST
        while some := list(rows()[:size]):
            if time.monotonic() > ends:
                done.left = True
                return done
            took = time.monotonic()
            deleted = _delete(some, max(until.values()), failing)
            took = time.monotonic() - took
            if not done.add(deleted):
                break
            size = rate.chunk_size(size, took)
            # SQLite hands its lock to nobody in particular: let others have it at least as long.
            time.sleep(min(took, 1.0))
    return done


def run_slice() -> dict[str, int]:
    """A slice of the periodic job, which asks for the next one while any work is left."""
    done = run()
    if done.left:
        publish.periodic_job(TASK)
    return dict(done.by_state)


def _selections(until: Until, failing: set[str], done: Pruned) -> Iterator[_Select]:
    """What may go, a selection of ids, flows and keys after another, as fewer and fewer rows."""
    known = [flow.name for flow in all_flows()]
    for state, before in until.items():
        yield _Select(_single(state, before).filter(flow__in=known), failing)
    for batch in _batches(until) if until else ():
        if batch.flow in known:
            yield _Select(batch.executions.order_by("batch_seq"), failing)
            done.batches += _delete_empty(batch)


class _Select:
    """Rows that may go, without those of flows that failed meanwhile."""

    def __init__(self, rows: QuerySet[Execution], failing: set[str]) -> None:
        self._rows, self._failing = rows, failing

    def __call__(self) -> QuerySet[Execution, tuple[int, str, str]]:
        rows = self._rows.exclude(flow__in=self._failing) if self._failing else self._rows
        return rows.values_list("pk", "flow", "key")


def _single(state: str, before: datetime) -> QuerySet[Execution]:
    """Executions in no batch, the oldest first."""
    single = Execution.objects.filter(state=state, finished_at__lt=before, batch__isnull=True)
    return single.order_by("finished_at")


def _batches(until: Until) -> QuerySet[Batch]:
    """Completed batches all of whose members may go, the innermost first."""
    may_go = Q(pk__in=())
    for state, before in until.items():
        may_go |= Q(state=state, finished_at__lt=before)
    kept = Execution.objects.filter(~may_go, batch=OuterRef("pk"))
    latest = max(until.values(), default=None)
    around = Q(parent=None) | Q(parent__completed_at__isnull=False)
    completed = Batch.objects.filter(around, completed_at__isnull=False, closed_at__lt=latest)
    return completed.filter(~Exists(kept)).order_by("-pk") if until else Batch.objects.none()


def _delete(
    some: Collection[tuple[int, str, str]], before: datetime, failing: set[str]
) -> Collection[Deleted]:
    """Delete these, unless somebody has changed them meanwhile; a flow that fails keeps its own."""
    deleted: list[Deleted] = []
    for flow, rows in groupby(sorted(some, key=lambda row: row[1]), key=lambda row: row[1]):
        try:
            deleted += _delete_of(flow, [pk for pk, _, _ in rows], before)
        except CallbackFailed:
            failing.add(flow)
    return deleted


def _delete_of(flow: str, ids: list[int], before: datetime) -> Collection[Deleted]:
    """What the flow stored of them goes in the same transaction, or all of it stays."""
    with transaction.atomic():
        deleted = states.delete_ended(ids, before)
        leases.delete_attempts([row.id for row in deleted])
        if deleted and get_flow(flow).forget:
            callbacks.forget(get_flow(flow), [row.key for row in deleted])
    return deleted


def _delete_empty(batch: Batch) -> int:
    members = Execution.objects.filter(batch=OuterRef("pk"))
    inner = Batch.objects.filter(parent=OuterRef("pk"))
    deleted = Batch.objects.filter(~Exists(members), ~Exists(inner), pk=batch.pk).delete()[1]
    return deleted.get(Batch._meta.label, 0)
