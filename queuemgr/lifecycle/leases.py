"""The rows of leases: inserted, read, locked, revoked, deleted, and copied to attempts.

A lease is the fence: whoever deletes or locks its row acts for it, and one whose row is gone acts no
more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection, transaction
from django.db.models import F, QuerySet

from queuemgr.base import sql
from queuemgr.base.config import queue_settings
from queuemgr.base.errors import StillStoring
from queuemgr.base.redaction import clean
from queuemgr.base.scheduler_lock import LockTimeout, has_sessions, lock_timeout
from queuemgr.flows.flow import queue_name
from queuemgr.lifecycle import states
from queuemgr.models import Execution, Lease, LeaseQuerySet, Outcome, State
from queuemgr.scheduling import wakeups

Executions = QuerySet[Execution] | Collection[Execution] | Collection[int]


class Grant(NamedTuple):
    """A lease, with all a worker needs to run its step."""

    lease_id: UUID
    execution_id: int
    flow: str
    key: str
    phase: str
    step: str
    priority: int
    limit_keys: str
    payload: dict[str, Any]
    context: dict[str, Any]
    traceparent: str = ""
    not_before: float = 0.0
    """When its step may begin under its rates, by `time.monotonic()` of the process that runs it."""

    @property
    def queue(self) -> str:
        return queue_name(self.phase, self.priority)

    def __str__(self) -> str:
        """As logs name it: `lease 3f2a…: orders/order-1001 step print`."""
        return f"lease {self.lease_id}: {self.flow}/{clean(self.key)} step {self.step}"


class HeldLease(NamedTuple):
    """A started lease whose row is locked, with what is known of its execution.

    `renewed_at`: when its worker last said that it still runs, or started it. `worker_seen_at`: the last
    heartbeat of the worker itself.
    """

    lease_id: UUID
    execution_id: int
    flow: str
    key: str
    phase: str
    step: str
    priority: int
    limit_keys: str
    tokens: str
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

    def __str__(self) -> str:
        """As logs name it: `lease 3f2a…: orders/order-1001 step print on w@host`."""
        key = clean(self.key)
        return f"lease {self.lease_id}: {self.flow}/{key} step {self.step} on {self.worker}"


class LeaseRow(NamedTuple):
    """A new lease: its fields are those of the model. Without a worker it waits for one to start it."""

    id: UUID
    execution_id: int
    phase: str
    step: str
    priority: int
    limit_keys: str
    due_at: datetime
    route_id: int
    tokens: str
    cost: int
    weight: int
    retrying: bool
    rate_debits: str
    worker_id: int | None
    leased_at: datetime
    started_at: datetime | None
    expires_at: datetime
    cancel_requested_by: str = ""
    spent: int = 0


ROWS_PER_STATEMENT = 1000
"""SQLite allows 32,766 parameters in a statement."""


_COLUMN_OF: dict[str, Any] = {field.attname: field.column for field in Lease._meta.concrete_fields}
_COLUMNS = [_COLUMN_OF[name] for name in LeaseRow._fields]


def insert(leases: Sequence[LeaseRow]) -> None:
    row = f"({sql.marks(len(_COLUMNS))})"
    for start in range(0, len(leases), ROWS_PER_STATEMENT):
        some = leases[start : start + ROWS_PER_STATEMENT]
        sql.run(
            f"INSERT INTO queuemgr_lease ({', '.join(_COLUMNS)}) VALUES {', '.join([row] * len(some))}",
            [value for lease in some for value in lease],
        )


_GRANTS = """
    SELECT l.id, e.id, e.flow, e.key, e.phase, e.step, e.priority, l.limit_keys, e.payload, e.context,
           e.traceparent, 0.0
      FROM queuemgr_lease l JOIN queuemgr_execution e ON e.id = l.execution_id
     WHERE l.id IN ({ids})
"""


def grants_of(lease_ids: Sequence[UUID]) -> list[Grant]:
    """The grants of leases inserted before."""
    if not lease_ids:
        return []
    return sql.rows(Grant, _GRANTS.format(ids=sql.marks(len(lease_ids))), lease_ids)


_LOCK = """
    SELECT l.id, l.execution_id, e.flow, e.key, l.phase, l.step, e.priority, l.limit_keys, l.tokens,
           l.cost, l.weight, l.spent, w.name, w.seen_at, l.cancel_requested_by, l.leased_at,
           COALESCE(l.renewed_at, l.started_at),
           e.attempts_counted_since, e.payload, e.context
      FROM queuemgr_lease l
      JOIN queuemgr_execution e ON e.id = l.execution_id
      JOIN queuemgr_worker w ON w.id = l.worker_id
     WHERE l.id IN ({ids}) {and_expired}
     ORDER BY l.id
    {lock}
"""


def lock_rows(lease_ids: Sequence[UUID]) -> list[HeldLease]:
    """Lock those of these leases that are started and still held.

    The executions are locked too: a priority changed meanwhile is waited for and read.
    """
    statement = _LOCK.format(ids=sql.marks(len(lease_ids)), and_expired="", lock=sql.typed("{lock_taken}"))
    return sql.rows(HeldLease, statement, lease_ids)


class RowsBusy(Exception):
    """Somebody else has locked the rows of these leases, or of their executions."""

    def __init__(self, lease_ids: Collection[UUID]) -> None:
        super().__init__(f"somebody else has locked the rows of {len(lease_ids)} leases")
        self.lease_ids = frozenset(lease_ids)


def lock_free_rows(lease_ids: Sequence[UUID]) -> list[HeldLease]:
    """As `lock_rows`, waiting for nobody: raises `RowsBusy`, which names those that somebody has locked."""
    statement = _LOCK.format(ids=sql.marks(len(lease_ids)), and_expired="", lock=sql.typed("{lock_free}"))
    locked = sql.rows(HeldLease, statement, lease_ids)
    _raise_if_busy(lease_ids, {lease.lease_id for lease in locked}, Lease.objects.started())
    return locked


def _raise_if_busy(lease_ids: Collection[UUID], locked: Collection[UUID], there: LeaseQuerySet) -> None:
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
    lock = sql.typed("{lock_free}")
    statement = _LOCK.format(ids=sql.marks(len(lease_ids)), and_expired=expired, lock=lock)
    return sql.rows(HeldLease, statement, [*lease_ids, *([expired_by] if expired_by else [])])


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


class StartedLease(NamedTuple):
    id: UUID
    execution_id: int
    rate_debits: str


_LOCK_UNSTARTED = """
    SELECT l.id, l.execution_id, l.rated
      FROM queuemgr_lease l JOIN queuemgr_execution e ON e.id = l.execution_id
     WHERE l.id IN ({ids}) AND l.started_at IS NULL
     ORDER BY l.id
    {lock}
"""


def _lock_unstarted(lease_ids: Sequence[UUID]) -> list[StartedLease]:
    """Lock those of these that no worker has started and nobody has locked, and their executions."""
    if not lease_ids:
        return []
    statement = _LOCK_UNSTARTED.format(ids=sql.marks(len(lease_ids)), lock=sql.typed("{lock_free}"))
    return sql.rows(StartedLease, statement, lease_ids)


def start(lease_ids: Sequence[UUID], worker_id: int, now: datetime) -> list[StartedLease]:
    """Give those of these leases that no worker has started to this one. Raises `RowsBusy`, which names
    those that somebody has locked."""
    started = _lock_unstarted(lease_ids)
    _raise_if_busy(lease_ids, {lease.id for lease in started}, Lease.objects.unstarted())
    Lease.objects.filter(pk__in=[lease.id for lease in started]).update(
        worker_id=worker_id, started_at=now, expires_at=lease_expiry(now, started=True)
    )
    return started


def set_starts(starts: Mapping[UUID, datetime]) -> None:
    """Set when these started leases start: at the moments booked for them."""
    if starts:
        sql.run_each(
            "UPDATE queuemgr_lease SET started_at = %s WHERE id = %s",
            [(at, pk) for pk, at in sorted(starts.items())],
        )


class Renewed(NamedTuple):
    """Of the leases to be renewed: those that are gone, and those whose step is being ended right now."""

    gone: set[UUID]
    ending: set[UUID]


@transaction.atomic
def renew(lease_ids: Collection[UUID], worker_id: int, now: datetime) -> Renewed:
    """Extend those of these leases that this worker still holds.

    Rows locked by the end of their step are left alone: it decides about them, and may take its time.
    """
    held = Lease.objects.filter(pk__in=lease_ids, worker_id=worker_id)
    free = set(_lock_free(held))
    expiry = lease_expiry(now, started=True)
    Lease.objects.filter(pk__in=free).update(renewed_at=now, expires_at=expiry)
    if len(free) == len(lease_ids):
        return Renewed(set(), set())
    there = set(held.values_list("pk", flat=True))
    return Renewed(set(lease_ids) - there, there - free)


@transaction.atomic
def extend(leases: LeaseQuerySet, now: datetime) -> int:
    """Give these leases one heartbeat from now; returns how many. Locked rows are left alone."""
    grace = timedelta(seconds=queue_settings().heartbeat_seconds + GRACE_MARGIN)
    return Lease.objects.filter(pk__in=_lock_free(leases)).update(expires_at=now + grace)


def _lock_free(leases: LeaseQuerySet) -> list[UUID]:
    """Lock those of these rows that nobody has locked, in the order in which ending locks them."""
    free = leases.order_by("pk")
    if connection.features.has_select_for_update:
        free = free.select_for_update(skip_locked=True, of=("self",))
    return list(free.values_list("pk", flat=True))


GRACE_MARGIN = 2.0
"""Seconds beyond a heartbeat: a worker tries to renew every second while it cannot."""


def request_cancellation(executions: Executions, by: str) -> set[int]:
    """Ask the workers of these executions to abort them; returns those not asked before."""
    leases = Lease.objects.filter(execution__in=executions, cancel_requested_by="")
    running = set(leases.values_list("execution_id", flat=True))
    leases.update(cancel_requested_by=by)
    return running


def record_requests(lease_id: UUID, requests: int) -> bool:
    """Add to the requests a step has spent; False if the lease is gone or reserved too few of them."""
    lease = Lease.objects.filter(pk=lease_id, spent__lte=F("cost") - requests)
    return bool(lease.update(spent=F("spent") + requests))


def delete_attempts(execution_ids: Sequence[int]) -> None:
    """Delete the attempts of executions that are deleted in the same transaction."""
    if execution_ids:
        ids = sql.marks(len(execution_ids))
        sql.run(f"DELETE FROM queuemgr_attempt WHERE execution_id IN ({ids})", execution_ids)


def delete(lease_ids: Sequence[UUID]) -> None:
    if lease_ids:
        sql.run(f"DELETE FROM queuemgr_lease WHERE id IN ({sql.marks(len(lease_ids))})", lease_ids)


class RevokedLease(NamedTuple):
    """A lease deleted before any worker started it."""

    id: UUID
    execution_id: int
    route_id: int
    phase: str
    limit_keys: str
    tokens: str
    cost: int


def revoke_unstarted_of(executions: Executions) -> list[RevokedLease]:
    """As `revoke_unstarted`, the leases of these executions."""
    unstarted = Lease.objects.unstarted().filter(execution__in=executions)
    return revoke_unstarted(unstarted.values_list("pk", flat=True))


def revoke_unstarted_in(queues: Collection[str]) -> list[RevokedLease]:
    """As `revoke_unstarted`, the leases of these queues."""
    unstarted = Lease.objects.unstarted().values_list("pk", "phase", "priority")
    return revoke_unstarted(pk for pk, phase, rank in unstarted if queue_name(phase, rank) in queues)


@transaction.atomic
def revoke_unstarted(lease_ids: Iterable[UUID]) -> list[RevokedLease]:
    """Delete those of these leases that no worker has started: their executions wait again, and no
    attempt is recorded. One that somebody is starting or revoking right now is left to them."""
    ids = [lease.id for lease in _lock_unstarted(list(lease_ids))]
    if not ids:
        return []
    revoked = sql.rows(
        RevokedLease,
        f"DELETE FROM queuemgr_lease WHERE id IN ({sql.marks(len(ids))}) "
        f"AND started_at IS NULL RETURNING {', '.join(RevokedLease._fields)}",
        ids,
    )
    states.move([lease.execution_id for lease in revoked], State.WAITING)
    freed = (wakeups.freed_by(e.phase, e.limit_keys, e.tokens, refunded=e.cost > 0) for e in revoked)
    wakeups.post({lease.route_id for lease in revoked}, set[str]().union(*freed))
    return revoked


class AttemptEnd(NamedTuple):
    """How a lease ended, as the columns of its attempt."""

    outcome: Outcome
    cost: int
    error_kind: str = ""
    error_message: str = ""


_ATTEMPTS = """
    WITH ended(lease_id, outcome, cost, error_kind, error_message) AS (VALUES {ends})
    INSERT INTO queuemgr_attempt (lease_id, execution_id, phase, step, priority, limit_keys, tokens,
                                  weight, retrying, worker, due_at, leased_at, started_at, ended_at,
                                  outcome, cost, error_kind, error_message)
    SELECT l.id, l.execution_id, l.phase, l.step, l.priority, l.limit_keys, l.tokens, l.weight,
           l.retrying, w.name, l.due_at, l.leased_at, l.started_at, {time},
           ended.outcome, ended.cost, ended.error_kind, ended.error_message
      FROM ended
      JOIN queuemgr_lease l ON l.id = ended.lease_id
      JOIN queuemgr_worker w ON w.id = l.worker_id
"""

_END = "({uuid}, {text}, {integer}, {text}, {text})"


def record_attempts(ends: Mapping[UUID, AttemptEnd], now: datetime) -> None:
    """Write the attempts of leases about to be deleted."""
    if ends:
        rows = ", ".join([sql.typed(_END)] * len(ends))
        values = [
            value
            for lease_id, end in ends.items()
            for value in (
                lease_id, end.outcome.value, end.cost, end.error_kind, clean(end.error_message),
            )
        ]  # fmt: skip
        sql.run(sql.typed(_ATTEMPTS, ends=rows), [*values, now])


def lease_expiry(now: datetime, *, started: bool) -> datetime:
    """When a lease granted or renewed now expires: sooner while no worker has started it."""
    config = queue_settings()
    return now + timedelta(seconds=config.lease_seconds if started else config.start_seconds)
