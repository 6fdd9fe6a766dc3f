"""The rows of leases: inserted, read, renewed, revoked, deleted, and copied to attempts.

A lease is the fence: whoever deletes or locks its row acts for it, and one whose row is gone acts no
more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import F

from queuemgr.base import sql, sql_lists, transaction
from queuemgr.base.config import queue_settings
from queuemgr.base.meters import Amounts, from_text
from queuemgr.base.queue_database import connection
from queuemgr.base.redaction import clean, storable
from queuemgr.base.traceback_text import as_stored
from queuemgr.flows.flow import queue_name
from queuemgr.lifecycle import lease_locks, states
from queuemgr.lifecycle.lease_locks import Executions
from queuemgr.lifecycle.states import Move
from queuemgr.models import Lease, LeaseQuerySet, Outcome, State
from queuemgr.scheduling import wakeups
from queuemgr.scheduling.rate_clocks import Booking, booked_text


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
    is_async: bool = False

    @property
    def queue(self) -> str:
        return queue_name(self.phase, self.priority)

    def __str__(self) -> str:
        """As logs name it: `lease 3f2a…: orders/order-1001 step print`."""
        return f"lease {self.lease_id}: {self.flow}/{clean(self.key)} step {self.step}"


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
    resources: str
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
    uses: str = ""
    is_async: bool = False


_FIELD_OF: dict[str, Any] = {field.attname: field for field in Lease._meta.concrete_fields}
_FIELDS = [_FIELD_OF[name] for name in LeaseRow._fields]
_INSERT = f"INSERT INTO queuemgr_lease ({', '.join(field.column for field in _FIELDS)})"


@cache
def _kinds(vendor: str) -> list[str]:
    return [sql_lists.kind_of(field) for field in _FIELDS]


def insert(leases: Sequence[LeaseRow]) -> None:
    for rows in sql_lists.tables(_kinds(connection.vendor), leases):
        sql.run(f"{_INSERT} {rows.text}", rows.values)


_GRANTS = """
    SELECT l.id, e.id, e.flow, e.key, e.phase, e.step, e.priority, l.limit_keys, e.payload, e.context,
           e.traceparent, 0.0, l.is_async
      FROM queuemgr_lease l JOIN queuemgr_execution e ON e.id = l.execution_id
     WHERE l.id {ids}
"""


def grants_of(lease_ids: Sequence[UUID]) -> list[Grant]:
    """The grants of leases inserted before."""
    if not lease_ids:
        return []
    ids = sql_lists.among("uuid", lease_ids)
    return sql.rows(Grant, _GRANTS.format(ids=ids.text), ids.values)


def lock_unstarted(lease_ids: Sequence[UUID]) -> list[lease_locks.StartedLease]:
    """Lock those of these leases that no worker has started, for this one to start. Raises `RowsBusy`, which
    names those that somebody has locked."""
    unstarted = lease_locks.lock_unstarted(lease_ids)
    lease_locks.raise_if_busy(lease_ids, {lease.id for lease in unstarted}, Lease.objects.unstarted())
    return unstarted


_START = """
    UPDATE queuemgr_lease SET worker_id = %s, expires_at = %s, started_at = started.column2,
           rated = started.column3
      FROM ({started}) AS started{executions}
     WHERE queuemgr_lease.id = started.column1
"""

_GRANTED = _GRANTS[_GRANTS.index("l.id") : _GRANTS.index("FROM")].replace("l.", "queuemgr_lease.")
_AND_GRANT = f" AND e.id = queuemgr_lease.execution_id RETURNING {_GRANTED}"
_OF_GRANT = "id, flow, key, phase, step, priority, payload, context, traceparent"


def start(
    executions: Mapping[UUID, int], bookings: Mapping[UUID, Booking], worker_id: int, now: datetime
) -> list[Grant]:
    """Give these leases, which are locked with their executions, to this worker: each starts at the moment
    booked for it, if there is one, and keeps what it took of the clocks of allowances, which is settled when
    it ends. PostgreSQL moves the executions in the same round trip; SQLite returns columns of the updated
    table only."""
    rows = sql_lists.table(
        ("uuid", "timestamptz", "text"),
        [(pk, booking.at or now, booked_text(booking.booked)) for pk, booking in bookings.items()],
    )
    values = [worker_id, lease_expiry(now, started=True), *rows.values]
    ids = list(executions.values())
    if connection.vendor == "postgresql":
        moved, start = states.moving(ids, State.RUNNING), _START.format(started=rows.text, executions=", e")
        statement = f"WITH e AS ({moved.text} RETURNING {_OF_GRANT}) {start}{_AND_GRANT}"
        grants = sql.rows(Grant, statement, [*moved.values, *values])
        states.check_all_moved(ids, State.RUNNING, len(grants))
        return grants
    states.move(ids, State.RUNNING)
    sql.run(_START.format(started=rows.text, executions=""), values)
    return grants_of(list(bookings))


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
    free = set(lease_locks.lock_free(held))
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
    return Lease.objects.filter(pk__in=lease_locks.lock_free(leases)).update(expires_at=now + grace)


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


def record_usage(lease_id: UUID, uses: str) -> bool:
    """Store what a step has used so far of meters other than requests; False if the lease is gone."""
    return bool(sql.run("UPDATE queuemgr_lease SET spent_uses = %s WHERE id = %s", [uses, lease_id]))


class Spending(NamedTuple):
    """What a running step adds to the requests it has spent, and what it has used so far of other meters; an
    empty text leaves that as it is."""

    lease_id: UUID
    requests: int
    uses: str


_SPEND = """
    WITH spending(lease_id, requests, uses) AS ({rows}),
         free AS (SELECT id FROM queuemgr_lease WHERE id IN (SELECT lease_id FROM spending){pass_over})
    UPDATE queuemgr_lease
       SET spent = spent + spending.requests,
           spent_uses = CASE WHEN spending.uses = '' THEN spent_uses ELSE spending.uses END
      FROM spending JOIN free ON free.id = spending.lease_id
     WHERE queuemgr_lease.id = free.id
       AND (spending.requests = 0 OR spending.requests <= cost - spent)
    RETURNING queuemgr_lease.id
"""


def record_spending(spending: Sequence[Spending]) -> set[UUID]:
    """Record what these steps, each named once, spend; returns the leases of those for which it was. The
    others are gone, reserved too few requests, or have a row that somebody has locked."""
    if not spending:
        return set()
    rows = sql_lists.table(("uuid", "bigint", "text"), spending)
    recorded = sql.rows(_LeaseId, sql.typed(_SPEND, rows=rows.text), rows.values)
    return {lease.lease_id for lease in recorded}


class _LeaseId(NamedTuple):
    lease_id: UUID


class Answered(NamedTuple):
    """A lease that says what its provider has left, what is reserved for it, and the time on PostgreSQL."""

    limit_keys: str
    cost: int
    uses: str
    now: datetime | None


_ANSWERED = """
    UPDATE queuemgr_lease SET answered = TRUE WHERE id = %s AND started_at IS NOT NULL
    RETURNING limit_keys, cost, uses, {now}
"""


def set_answered(lease_id: UUID) -> Answered | None:
    """Note that it said what its provider has left; None if it is gone."""
    return next(iter(sql.rows(Answered, sql.typed(_ANSWERED), [lease_id])), None)


def reserved_uses(lease_id: UUID) -> Amounts | None:
    """What is reserved for a lease of meters other than requests; None if it is gone."""
    uses = Lease.objects.filter(pk=lease_id).values_list("uses", flat=True).first()
    return None if uses is None else from_text(uses)


def delete_attempts(execution_ids: Sequence[int]) -> None:
    """Delete the attempts of executions that are deleted in the same transaction."""
    if execution_ids:
        ids = sql.marks(len(execution_ids))
        sql.run(f"DELETE FROM queuemgr_attempt WHERE execution_id IN ({ids})", execution_ids)


class RevokedLease(NamedTuple):
    """A lease deleted before any worker started it."""

    id: UUID
    execution_id: int
    route_id: int
    phase: str
    limit_keys: str
    resources: str
    cost: int
    uses: str


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
    ids = [lease.id for lease in lease_locks.lock_unstarted(list(lease_ids))]
    if not ids:
        return []
    revoked = sql.rows(
        RevokedLease,
        f"DELETE FROM queuemgr_lease WHERE id IN ({sql.marks(len(ids))}) "
        f"AND started_at IS NULL RETURNING {', '.join(RevokedLease._fields)}",
        ids,
    )
    states.move([lease.execution_id for lease in revoked], State.WAITING)
    freed = (
        wakeups.freed_by(e.phase, e.limit_keys, e.resources, refunded=e.cost > 0 or e.uses > "")
        for e in revoked
    )
    wakeups.post({lease.route_id for lease in revoked}, set[str]().union(*freed))
    return revoked


class AttemptEnd(NamedTuple):
    """How a lease ended, as the columns of its attempt."""

    outcome: Outcome
    cost: int
    error_kind: str = ""
    error_message: str = ""
    traceback: str = ""
    uses: str = ""


_ENDED = "WITH ended(lease_id, outcome, cost, error_kind, error_message, uses) AS ({ends}){deleted}"
_ATTEMPTS = """
    INSERT INTO queuemgr_attempt (lease_id, execution_id, phase, step, priority, limit_keys, resources,
                                  weight, retrying, worker, due_at, leased_at, started_at, ended_at,
                                  outcome, cost, error_kind, error_message, uses, flow)
    SELECT l.id, l.execution_id, l.phase, l.step, l.priority, l.limit_keys, l.resources, l.weight,
           l.retrying, w.name, l.due_at, l.leased_at, l.started_at, {time},
           ended.outcome, ended.cost, ended.error_kind, ended.error_message, NULLIF(ended.uses, ''),
           CASE WHEN ended.uses <> '' THEN
             (SELECT e.flow FROM queuemgr_execution e WHERE e.id = l.execution_id) END
      FROM ended
      JOIN {leases} l ON l.id = ended.lease_id
      JOIN queuemgr_worker w ON w.id = l.worker_id
"""

_END = ("uuid", "text", "integer", "text", "text", "text")


_DELETE = """, deleted AS (DELETE FROM queuemgr_lease USING ended
     WHERE queuemgr_lease.id = ended.lease_id RETURNING queuemgr_lease.*)"""
_DELETED = {"postgresql": (_DELETE, "deleted")}
"""PostgreSQL does both in one round trip; SQLite, which is in the process, has no such statement."""


def record_attempts(ends: Mapping[UUID, AttemptEnd], now: datetime, move: Move | None = None) -> None:
    """Delete these leases, which are locked, and write their attempts. Move their executions, too, if all are
    moved by one statement: on PostgreSQL in the same round trip."""
    if ends:
        rows = [
            (lease_id, end.outcome.value, end.cost, end.error_kind, clean(end.error_message), end.uses)
            for lease_id, end in ends.items()
        ]
        ended = sql_lists.table(_END, rows)
        deleted, leases = _DELETED.get(connection.vendor, ("", "queuemgr_lease"))
        given = _ENDED.format(ends=ended.text, deleted=deleted)
        record, values = sql.typed(_ATTEMPTS, leases=leases), [*ended.values, now]
        if deleted and move:
            states.make(move, sql_lists.Listed(f"{given}, recorded AS ({record})", values))
        else:
            sql.run(f"{given} {record}", values)
        if not deleted:
            ids = sql_lists.among("uuid", ends)
            sql.run(f"DELETE FROM queuemgr_lease WHERE id {ids.text}", ids.values)
    if move and not (ends and deleted):
        states.make(move)
    tracebacks = [(as_stored(end.traceback), lease_id) for lease_id, end in ends.items() if end.traceback]
    if tracebacks:
        sql.run_each("UPDATE queuemgr_attempt SET traceback = %s WHERE lease_id = %s", tracebacks)


def record_logs(logs: Mapping[UUID, str]) -> None:
    """What the steps of failed attempts logged, masked."""
    rows = [(storable(log), lease_id) for lease_id, log in logs.items() if log]
    if rows:
        sql.run_each("UPDATE queuemgr_attempt SET log = %s WHERE lease_id = %s", rows)


def lease_expiry(now: datetime, *, started: bool) -> datetime:
    """When a lease granted or renewed now expires: sooner while no worker has started it."""
    config = queue_settings()
    return now + timedelta(seconds=config.lease_seconds if started else config.start_seconds)
