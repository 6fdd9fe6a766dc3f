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
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

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
from queuemgr.operations import batch_allowances
from queuemgr.operations.bulk import rate
from queuemgr.reporting import failure_retention

logger = logging.getLogger(__name__)

TASK = "queuemgr.retention"
SLICE_SECONDS = 2.0


class Rule(NamedTuple):
    """Executions of a state that ended before this may go, of the flows that `which` says. What is kept for
    ever has none."""

    state: str
    before: datetime
    which: Q = Q()

    @property
    def q(self) -> Q:
        return Q(self.which, state=self.state, finished_at__lt=self.before)


Until = Sequence[Rule]


def days_by_state(config: QueueSettings) -> dict[str, float]:
    """Days that ended executions are kept; 0: for ever."""
    return {
        State.DONE: config.keep_done_days,
        State.SKIPPED: config.keep_skipped_days,
        State.CANCELLED: config.keep_cancelled_days,
        State.FAILED: config.keep_failed_days,
    }


def rules(now: datetime) -> Until:
    """By state, and of failures by flow where one has days of its own."""
    own = failure_retention.of_their_own()
    kept = [(state, days, Q()) for state, days in days_by_state(queue_settings()).items()]
    if own:
        kept = [(state, days, ~Q(flow__in=own) if state == State.FAILED else q) for state, days, q in kept]
    kept += [
        (State.FAILED, days, Q(flow__in=[flow for flow, theirs in own.items() if theirs == days]))
        for days in sorted(set(own.values()))
    ]
    if not any(days for _, days, _ in kept):
        return ()
    counted = minute_stats.counted_to(now)
    return [
        Rule(str(state), min(counted, now - timedelta(days=days)), which)
        for state, days, which in kept if days
    ]  # fmt: skip


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
    until, counts = rules(now), Counter[str]()
    for rule in until:
        counts[rule.state] += _single(rule).count()
    for batch in _batches(until):
        for state in batch.executions.values_list("state", flat=True):
            counts[state] += 1
    return dict(counts)


def run(seconds: float = SLICE_SECONDS) -> Pruned:
    """Delete for so long what may go; `left` when the time was too short."""
    done, ends = Pruned(), time.monotonic() + seconds
    until = rules(database_now())
    failing: set[str] = set()  # flows whose `forget` failed: theirs stay
    for rows in _selections(until, failing, done):
        size = rate.FEWEST
        while some := list(rows()[:size]):
            if time.monotonic() > ends:
                done.left = True
                return done
            took = time.monotonic()
            deleted = _delete(some, max(rule.before for rule in until), failing)
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
    for rule in until:
        yield _Select(_single(rule).filter(flow__in=known), failing)
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


def _single(rule: Rule) -> QuerySet[Execution]:
    """Executions in no batch, the oldest first."""
    return Execution.objects.filter(rule.q, batch__isnull=True).order_by("finished_at")


def _batches(until: Until) -> QuerySet[Batch]:
    """Completed batches all of whose members may go, the innermost first."""
    may_go = Q(pk__in=())
    for rule in until:
        may_go |= rule.q
    kept = Execution.objects.filter(~may_go, batch=OuterRef("pk"))
    latest = max((rule.before for rule in until), default=None)
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
    with transaction.atomic():
        deleted = Batch.objects.filter(~Exists(members), ~Exists(inner), pk=batch.pk).delete()[1]
        if gone := deleted.get(Batch._meta.label, 0):
            batch_allowances.remove(batch.pk)
    return gone
