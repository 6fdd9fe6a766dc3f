"""Rows of leases locked: for their end or their start, waiting for others or leaving them their own.

Every function locks in the order of the leases, and their executions with them: so no two wait for each
other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import QuerySet

from queuemgr.base import sql, sql_lists
from queuemgr.base.errors import StillStoring
from queuemgr.base.meters import Amounts, amounts_of
from queuemgr.base.queue_database import connection
from queuemgr.base.redaction import clean
from queuemgr.base.scheduler_lock import LockTimeout, has_sessions, lock_timeout
from queuemgr.models import Execution, Lease, LeaseQuerySet

Executions = QuerySet[Execution] | Collection[Execution] | Collection[int]


class HeldLease(NamedTuple):
    """A started lease whose row is locked, with what is known of its execution.

    `renewed_at`: when its worker last said that it still runs, or started it. `worker_seen_at`: the last
    heartbeat of the worker itself. `limits_failed`: whether a breaker of its keys counts failures, or is
    half-open, so that a success matters to it.
    """

    lease_id: UUID
    execution_id: int
    flow: str
    key: str
    phase: str
    step: str
    priority: int
    limit_keys: str
    resources: str
    cost: int
    weight: int
    reported_cost: int
    worker: str
    worker_seen_at: datetime
    cancel_requested_by: str
    leased_at: datetime
    renewed_at: datetime
    attempts_counted_since: datetime
    payload: dict[str, Any]
    context: dict[str, Any]
    uses: str = ""
    spent_uses: str = ""
    rate_debits: str = ""
    started_at: datetime | None = None
    answered: bool = False
    limits_failed: bool = True

    def __str__(self) -> str:
        """As logs name it: `lease 3f2a…: orders/order-1001 step print on w@host`."""
        key = clean(self.key)
        return f"lease {self.lease_id}: {self.flow}/{key} step {self.step} on {self.worker}"


_LOCK = """
    SELECT l.id, l.execution_id, e.flow, e.key, l.phase, l.step, e.priority, l.limit_keys, l.resources,
           l.cost, l.weight, l.spent, w.name, w.seen_at, l.cancel_requested_by, l.leased_at,
           COALESCE(l.renewed_at, l.started_at),
           e.attempts_counted_since, e.payload, e.context, l.uses, l.spent_uses, l.rated,
           l.started_at, l.answered,
           l.limit_keys <> '' AND EXISTS (
             SELECT 1 FROM queuemgr_routelimit k JOIN queuemgr_gate g ON g.name = k.name
              WHERE k.route_id = l.route_id AND (g.failures > 0 OR g.half_open_starts > 0))
      FROM queuemgr_lease l
      JOIN queuemgr_execution e ON e.id = l.execution_id
      JOIN queuemgr_worker w ON w.id = l.worker_id
     WHERE l.id {ids} {and_expired}
     ORDER BY l.id
    {lock}
"""


def lock_rows(lease_ids: Sequence[UUID]) -> list[HeldLease]:
    """Lock those of these leases that are started and still held.

    The executions are locked too: a priority changed meanwhile is waited for and read.
    """
    ids = sql_lists.among("uuid", lease_ids)
    statement = _LOCK.format(ids=ids.text, and_expired="", lock=sql.typed("{lock_taken}"))
    return sql.rows(HeldLease, statement, ids.values)


class RowsBusy(Exception):
    """Somebody else has locked the rows of these leases, or of their executions."""

    def __init__(self, lease_ids: Collection[UUID]) -> None:
        super().__init__(f"somebody else has locked the rows of {len(lease_ids)} leases")
        self.lease_ids = frozenset(lease_ids)


def lock_free_rows(lease_ids: Sequence[UUID]) -> list[HeldLease]:
    """As `lock_rows`, waiting for nobody: raises `RowsBusy`, which names those that somebody has locked."""
    ids = sql_lists.among("uuid", lease_ids)
    statement = _LOCK.format(ids=ids.text, and_expired="", lock=sql.typed("{lock_free}"))
    locked = sql.rows(HeldLease, statement, ids.values)
    raise_if_busy(lease_ids, {lease.lease_id for lease in locked}, Lease.objects.started())
    return locked


def raise_if_busy(lease_ids: Collection[UUID], locked: Collection[UUID], there: LeaseQuerySet) -> None:
    """Whoever is not locked and still there is somebody else's at the moment."""
    if missing := set(lease_ids).difference(locked):
        busy = set(there.filter(pk__in=missing).values_list("pk", flat=True))
        if busy and has_sessions():
            raise RowsBusy(busy)


def lock_ownerless(lease_ids: Sequence[UUID], expired_by: datetime | None = None) -> list[HeldLease]:
    """As `lock_rows`, the leases whose worker is gone (or that expired by then, if given).

    Rows that somebody holds are left alone: their step is being ended right now, perhaps by a slow store.
    """
    expired = "AND l.expires_at < %s" if expired_by else ""
    ids, lock = sql_lists.among("uuid", lease_ids), sql.typed("{lock_free}")
    statement = _LOCK.format(ids=ids.text, and_expired=expired, lock=lock)
    return sql.rows(HeldLease, statement, [*ids.values, *([expired_by] if expired_by else [])])


def lock_of(executions: Executions) -> None:
    """Wait for starts and ends of these executions in progress; later ones wait for this transaction.

    The rows are locked in the order in which ending locks them. Not to be called with the scheduler lock
    held: the end of a step waits for its store, which is the application's code. Raises `StillStoring`
    when that takes longer than `STORE_WAIT_SECONDS`.
    """
    held = Lease.objects.filter(execution__in=executions).order_by("pk")
    try:
        with lock_timeout(STORE_WAIT_SECONDS * 1000):
            list(held.select_for_update().values_list("pk"))
    except LockTimeout:
        raise StillStoring(
            f"a step of these executions has been storing its result for over {STORE_WAIT_SECONDS} s: try "
            "again when it has ended"
        ) from None


STORE_WAIT_SECONDS = 5
"""How long a person's action waits for the store of a step whose execution it changes."""


def lock_free_of(executions: Executions) -> set[int]:
    """Lock the leases of these executions that nobody is ending right now; returns the executions of those
    that somebody is. For whoever holds the scheduler lock and must not wait for a store."""
    held = Lease.objects.filter(execution__in=executions)
    free = held.order_by("pk")
    if connection.features.has_select_for_update:
        free = free.select_for_update(skip_locked=True)
    locked = set(free.values_list("execution_id", flat=True))
    return set(held.values_list("execution_id", flat=True)) - locked


_KEEP = """
    SELECT e.batch_id FROM queuemgr_lease l JOIN queuemgr_execution e ON e.id = l.execution_id
     WHERE l.id = %s AND l.started_at IS NOT NULL{lock}
"""


def keep_held(lease_id: UUID) -> list[int | None]:
    """The batch, or None, of the execution of this lease, which cannot end before the transaction does; it
    may be renewed. Empty if it has ended."""
    return sql.column(_KEEP.format(lock=sql.typed("{keep}")), [lease_id])


class StartedLease(NamedTuple):
    id: UUID
    execution_id: int
    rate_debits: str
    cost: int
    uses: str

    @property
    def amounts(self) -> Amounts:
        return amounts_of(self.cost, self.uses)


_LOCK_UNSTARTED = """
    SELECT l.id, l.execution_id, l.rated, l.cost, l.uses
      FROM queuemgr_lease l JOIN queuemgr_execution e ON e.id = l.execution_id
     WHERE l.id {ids} AND l.started_at IS NULL
     ORDER BY l.id
    {lock}
"""


def lock_unstarted(lease_ids: Sequence[UUID]) -> list[StartedLease]:
    """Lock those of these that no worker has started and nobody has locked, and their executions."""
    if not lease_ids:
        return []
    ids = sql_lists.among("uuid", lease_ids)
    statement = _LOCK_UNSTARTED.format(ids=ids.text, lock=sql.typed("{lock_free}"))
    return sql.rows(StartedLease, statement, ids.values)


def lock_free(leases: LeaseQuerySet) -> list[UUID]:
    """Lock those of these rows that nobody has locked, in the order in which ending locks them."""
    free = leases.order_by("pk")
    if connection.features.has_select_for_update:
        free = free.select_for_update(skip_locked=True, of=("self",))
    return list(free.values_list("pk", flat=True))
