"""How batches go on as their members end: the window moves, the first failure cancels the rest.

Every end of a member leaves word for its batch, in its own transaction (`states.move`). The next
decision reads it, holding the fleet's lock: mostly in the transaction of the ending itself, else in
the one after it, at the latest at the tick. So batches are looked at by one transaction at a time,
which sees every end that was committed, and what nobody lived to do is done by whoever comes next.

Members beyond the window wait with `run_after` at `HELD_BACK`, behind all else on their routes, where
admission never counts them. Looking at a batch costs a few steps along an index, and at most
`MAX_WINDOW` rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime

from django.db.models import F, Q

from queuemgr.base import scheduler_lock, sql
from queuemgr.base.redaction import clean
from queuemgr.base.scheduler_lock import SchedulerLock
from queuemgr.lifecycle import revoke, states
from queuemgr.lifecycle.states import Head
from queuemgr.models import HELD, Batch, Execution, Lease, Route, State
from queuemgr.scheduling import wakeups
from queuemgr.scheduling.admission import BEYOND_WINDOW

MAX_WINDOW = 10_000
"""Members. Bounds what a decision reads when a window moves; a wider one holds nothing back that matters."""

CANCEL_BATCH_SIZE = 500
"""Members cancelled in one decision, so that the end of a large batch holds up no other work."""


def advance_batches(
    lock: SchedulerLock, batches: Collection[int], unswept: Collection[int]
) -> bool:
    """Do what the ends of members ask for, and go on sweeping up what was cancelled.

    True when a cancelled batch is so large that some of it is left for the next decision.
    """
    if not batches and not unswept:
        return False
    found = Batch.objects.filter(pk__in={*batches, *unswept})
    left = [batch.pk for batch in found if _advance(lock, batch, sweeping=batch.pk in unswept)]
    wakeups.post(unswept=left)
    return bool(left)


def _advance(lock: SchedulerLock, batch: Batch, *, sweeping: bool) -> bool:
    """Sweeps only when told to: members retried since are passed over one by one, which the end of
    each of them must not cost."""
    if batch.fail_fast and batch.cancelled_at is None:
        sweeping = _stop_if_one_failed(lock, batch) or sweeping
    left = sweeping and cancel_members(lock, batch) == CANCEL_BATCH_SIZE
    if batch.window:
        start_within_window(lock, batch)
    return left


def _stop_if_one_failed(lock: SchedulerLock, batch: Batch) -> bool:
    failed = batch.executions.failed().order_by("finished_at", "batch_seq").first()
    if failed is None:
        return False
    return mark_cancelled(lock, batch, f"{failed.key[:150]} failed: {failed.error_kind}")


def mark_cancelled(lock: SchedulerLock, batch: Batch, because: str) -> bool:
    """Close a batch and say that it is cancelled, once; waits for whoever is adding to it.

    From here on nothing of it starts. False when it was cancelled before.
    """
    locked = Batch.objects.select_for_update().get(pk=batch.pk)
    if locked.cancelled_at is not None:
        return False
    # No earlier than whoever was adding until this moment: what they added is met.
    at = max(lock.now, scheduler_lock.database_now())
    batch.cancelled_at, batch.closed_at = at, locked.closed_at or at
    batch.cancelled_because = clean(because)[:200]
    batch.save(update_fields=("cancelled_at", "closed_at", "cancelled_because"))
    return True


def cancel_members(lock: SchedulerLock, batch: Batch) -> int:
    """Cancel what waits of a cancelled batch, some hundreds at a time, and ask what runs to stop.

    Returns how many were cancelled. Left alone are members a person retried since.
    """
    members = batch.executions.filter(attempts_counted_since__lte=batch.cancelled_at)
    held = Lease.objects.filter(execution__in=members.held()).order_by("pk")
    list(held.select_for_update().values_list("pk"))  # in the order in which endings take them
    sent = Lease.objects.unstarted().filter(execution__in=members.filter(state=State.LEASED))
    revoke.revoke_unstarted(list(sent.values_list("pk", flat=True)))
    running = members.filter(state=State.RUNNING)
    Lease.objects.filter(execution__in=running, cancel_requested_by="").update(
        cancel_requested_by=_name(batch)
    )
    waiting = members.waiting().order_by("batch_seq").values_list("pk", flat=True)
    return _cancel(list(waiting[:CANCEL_BATCH_SIZE]), batch, lock.now)


def _cancel(members: Collection[int], batch: Batch, now: datetime) -> int:
    reason = f"cancelled with {_name(batch)}: {batch.cancelled_because}"[:200]
    states.move(members, State.CANCELLED, finished_at=now, route_id=None, wait_reason=reason)
    return len(members)


def _name(batch: Batch) -> str:
    return f"batch {batch.name}"[:150]


def drop_cancelled(lock: SchedulerLock, taken: Sequence[Head]) -> list[Head]:
    """Those of these executions, just taken to be leased, that may be: members of a batch cancelled
    meanwhile that `cancel_members` has not reached yet are cancelled instead."""
    members = [head.id for head in taken if head.batch_id]
    cancelled = _cancel_taken(members, lock.now) if members else set()
    return [head for head in taken if head.id not in cancelled]


def _cancel_taken(members: Collection[int], now: datetime) -> set[int]:
    late = Execution.objects.select_related("batch").filter(
        pk__in=members, attempts_counted_since__lte=F("batch__cancelled_at")
    )
    by_batch: dict[Batch, list[int]] = defaultdict(list)
    for execution in late:
        if execution.batch:
            by_batch[execution.batch].append(execution.pk)
    for batch, some in by_batch.items():
        _cancel(some, batch, now)
    return {pk for some in by_batch.values() for pk in some}


def start_within_window(lock: SchedulerLock, batch: Batch) -> None:
    """Let those members start that came within the window."""
    head = first_unfinished([batch.pk]).get(batch.pk)
    if head is None:
        return
    released = sql.rows(
        "UPDATE queuemgr_execution SET run_after = %s WHERE batch_id = %s AND state = 'waiting' "
        "AND batch_seq >= %s AND batch_seq < %s AND run_after = %s RETURNING route_id",
        [lock.now, batch.pk, head, head + batch.window, BEYOND_WINDOW],
    )
    routes = {route for (route,) in released}
    Route.objects.filter(pk__in=routes, head_at__gt=lock.now).update(head_at=lock.now)
    wakeups.unpark(lock, routes)


def defer_beyond_window(lock: SchedulerLock, members: Collection[int]) -> None:
    """Defer those of these waiting executions that lie beyond the windows of their batches, whatever
    their `run_after`."""
    waiting = Execution.objects.waiting().filter(pk__in=members, batch__window__gt=0)
    found = list(waiting.values_list("pk", "batch_id", "batch_seq", "batch__window"))
    heads = first_unfinished({batch for _, batch, _, _ in found if batch}) if found else {}
    beyond = [pk for pk, batch, seq, n in found if (seq or 0) >= heads.get(batch or 0, 0) + n]
    Execution.objects.filter(pk__in=beyond).update(run_after=BEYOND_WINDOW)


_OF_STATE = """
    SELECT batch_seq AS first FROM (
        SELECT batch_id, state, batch_seq FROM queuemgr_execution
         WHERE batch_id IS NOT NULL AND (batch_id, state, batch_seq) >= (b.id, '{state}', 0)
         ORDER BY batch_id, state, batch_seq LIMIT 1) AS nearest
     WHERE batch_id = b.id AND state = '{state}'
"""
"""Compared as a row, so that only the index made for it serves: left to choose, PostgreSQL would pass all
that ended, in order of `batch_seq`."""
_FIRSTS = " UNION ALL ".join(_OF_STATE.format(state=state) for state in (State.WAITING, *HELD))
_HEADS = f"""
    SELECT b.id, (SELECT MIN(first) FROM ({_FIRSTS}) AS firsts) FROM queuemgr_batch b
     WHERE b.id IN ({{ids}})
"""


def first_unfinished(batches: Collection[int]) -> dict[int, int]:
    """The place (`batch_seq`) of the first member not yet ended, by batch; without those that have
    none. A few steps along an index each, however many have ended."""
    if not batches:
        return {}
    found = sql.rows(_HEADS.format(ids=sql.marks(len(batches))), list(batches))
    return {batch: head for batch, head in found if head is not None}


class WindowPositions:
    """Why members beyond the window wait, in a sentence.

    Read when first asked, for all windows at once (of the newest batches), so that a page of such
    members costs two statements.
    """

    def __init__(self) -> None:
        self._windows: dict[int, tuple[str, int]] = {}
        self._heads: dict[int, int] = {}

    def sentence(self, member: Execution) -> str:
        """Such as `beyond the window of batch nightly: 3 before it (window 10)`."""
        batch, seq = member.batch_id or 0, member.batch_seq or 0
        if batch not in self._windows:
            self._read(batch)
        name, window = self._windows[batch]
        before = max(1, seq - self._heads.get(batch, seq) - window + 1)
        return f"beyond the window of batch {name}: {before:,} before it (window {window:,})"

    def _read(self, batch: int) -> None:
        windowed = Batch.objects.filter(window__gt=0).order_by("-pk").values("pk")[:NEWEST]
        found = Batch.objects.filter(Q(pk__in=windowed) | Q(pk=batch))
        self._windows |= {
            pk: (name, n) for pk, name, n in found.values_list("pk", "name", "window")
        }
        self._heads = first_unfinished(self._windows)


NEWEST = 200
"""Batches whose windows are read together."""
