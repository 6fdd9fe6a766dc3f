"""The ways a lease ends: stored, counted, settled and followed up in one short transaction.

Whoever no longer holds its lease stores nothing: every ending first takes the lease's row, and one
whose row is gone is dropped. What the freed slots run next is decided in the same transaction.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from queuemgr.base import scheduler_lock, sql
from queuemgr.base.budget_day import day_of
from queuemgr.base.errors import StepFailed
from queuemgr.base.redaction import clean, describe_error
from queuemgr.base.scheduler_lock import SchedulerLock
from queuemgr.flows.outcomes import Done, Failed, Lost, Result, Snoozed
from queuemgr.lifecycle import anomalies, leases, revoke, states, tracing
from queuemgr.lifecycle.dispatch import grant_leases
from queuemgr.lifecycle.outcome_rules import HeldLease, OutcomeEffects, apply_outcome
from queuemgr.models import Lease
from queuemgr.scheduling import breakers, wakeups
from queuemgr.scheduling.admission import rule_for
from queuemgr.scheduling.claims import names_of
from queuemgr.scheduling.limit_rules import rules_of

logger = logging.getLogger(__name__)

LOCK_WAIT_MS = 100
"""How long a finish waits for the fleet's lock, since its slot wants work; then others dispatch."""


@dataclass(frozen=True, slots=True)
class Finish:
    """A lease and how its step ended."""

    lease_id: UUID
    result: Result


@dataclass(frozen=True, slots=True)
class FinishResult:
    """What came of a batch of endings: how each attempt was recorded (leases no longer held are
    missing), and the work granted to the freed slots and to messages."""

    outcomes: Mapping[UUID, str]
    granted: leases.GrantResult


def finish_batch(endings: Sequence[Finish], free_slots: leases.FreeSlots | None) -> FinishResult:
    """End these leases and hand the freed slots on, all in one transaction.

    The caller publishes `granted.to_send` after it returns.
    """
    with transaction.atomic():
        lock = scheduler_lock.try_acquire(LOCK_WAIT_MS)
        now = lock.now if lock else scheduler_lock.database_now()
        outcomes = finish_leases(endings, now, lock)
        anomalies.count(anomalies.ENDING_REFUSED, len(endings) - len(outcomes), now)
        began = time.time()
        granted = leases.schedule(lock, free_slots) if lock else leases.NO_GRANTS
    tracing.record_decision(began, granted)
    if not lock:
        granted = grant_leases()
    return FinishResult(outcomes, granted)


def expire(lock: SchedulerLock) -> list[HeldLease]:
    """End every lease that expired, and exactly those; returns those whose step had begun."""
    expired = Lease.objects.expired(lock.now)
    unbegun = revoke.revoke_unstarted(list(expired.unstarted().values_list("pk", flat=True)))
    anomalies.count(anomalies.LEASE_UNBEGUN, unbegun, lock.now)
    lost = [Finish(pk, Lost()) for pk in expired.started().values_list("pk", flat=True)]
    return [s.lease for s in _finish(lost, lock.now, lock, expired_by=lock.now)]


def end_leases_of_dead_worker(lock: SchedulerLock, worker_id: int) -> list[HeldLease]:
    """End the leases of a worker known to be dead, without waiting for them to run out."""
    held = Lease.objects.filter(worker_id=worker_id).values_list("pk", flat=True)
    return [s.lease for s in _finish([Finish(pk, Lost()) for pk in held], lock.now, lock)]


def finish_leases(
    endings: Iterable[Finish], now: datetime, lock: SchedulerLock | None = None
) -> dict[UUID, str]:
    """Write what these endings mean; returns the outcome recorded for each lease still held."""
    return {s.lease.lease_id: s.outcome.value for s in _finish(endings, now, lock)}


def _finish(
    endings: Iterable[Finish],
    now: datetime,
    lock: SchedulerLock | None,
    *,
    expired_by: datetime | None = None,
) -> list[OutcomeEffects]:
    results = {ending.lease_id: ending.result for ending in endings}
    if not results:
        return []
    held = _lock_held(list(results), expired_by)
    settled = [apply_outcome(lease, _stored(results[lease.lease_id]), now) for lease in held]
    _write_attempts(settled, now)
    _delete([lease.lease_id for lease in held])
    _write_moves(settled)
    _write_usage(settled)
    _unpark(settled, _report_to_limits(settled, now), lock)
    return settled


def _report_to_limits(settled: Iterable[OutcomeEffects], now: datetime) -> set[str]:
    """Record results at the limits' breakers; returns the limits that now let more start."""
    keyed = [
        s for s in settled if s.lease.limit_keys or getattr(_service_result(s.result), "limit", "")
    ]
    if not keyed:
        return set()
    reports = [
        breakers.ServiceReport(s.lease.limit_keys, s.lease.leased_at, _service_result(s.result))
        for s in keyed
    ]
    names = {name for report in reports for name in report.limits}
    return breakers.record_results(reports, rules_of(names, now), now) if names else set()


def _service_result(result: Result) -> Result:
    """The result to report to the limits: the service's, if the step named one, else the step's own."""
    service = result.service if isinstance(result, Snoozed | Done) else None
    return service or result


def _unpark(
    settled: Iterable[OutcomeEffects], widened: set[str], lock: SchedulerLock | None
) -> None:
    """Unpark routes this work now waits on, and routes parked on the limits it freed."""
    routes = {s.changes["route_id"] for s in settled if s.changes.get("route_id")}
    limits = widened.union(*(_freed(s) for s in settled))
    if lock:
        wakeups.unpark(lock, routes, limits)
    else:
        wakeups.post(routes, limits)


def _freed(s: OutcomeEffects) -> set[str]:
    refunded = s.spent < s.lease.cost
    return wakeups.freed_by(s.lease.phase, s.lease.limit_keys, s.lease.tokens, refunded=refunded)


_TAKE = """
    SELECT l.id, l.execution_id, e.flow, l.phase, l.step, e.priority, l.limit_keys, l.tokens, l.cost,
           l.weight, l.spent, w.name, l.cancel_requested_by, l.leased_at,
           e.attempts_counted_since, e.payload, e.context
      FROM queuemgr_lease l
      JOIN queuemgr_execution e ON e.id = l.execution_id
      JOIN queuemgr_worker w ON w.id = l.worker_id
     WHERE l.id IN ({ids}) {and_expired}
     ORDER BY l.id
    {lock_taken}
"""


def _lock_held(lease_ids: list[UUID], expired_by: datetime | None) -> list[HeldLease]:
    """Lock the rows of begun leases still held, against a renewal or an expiry at this moment, and their
    executions, so that one who changed a priority meanwhile is waited for and theirs is read."""
    statement = sql.typed(
        _TAKE,
        ids=sql.marks(len(lease_ids)),
        and_expired="AND l.expires_at < %s" if expired_by else "",
    )
    parameters = [*lease_ids, *([expired_by] if expired_by else [])]
    return [_held(*row) for row in sql.rows(statement, parameters)]


def _held(lease_id: Any, *row: Any) -> HeldLease:
    *columns, leased_at, attempts_counted_since, payload, context = row
    rest = [
        *columns,
        sql.as_datetime(leased_at),
        sql.as_datetime(attempts_counted_since),
        sql.as_json(payload),
        sql.as_json(context),
    ]
    return HeldLease(*[sql.as_uuid(lease_id), *rest])


def _stored(result: Result) -> Result:
    """Run the step's own store inside our transaction; when that fails the step has failed."""
    if not isinstance(result, Done | Snoozed | Failed) or result.store is None:
        return result
    cost = None if isinstance(result, Snoozed) else result.cost
    try:
        with transaction.atomic():
            result.store()
    except StepFailed as error:
        return Failed(error.kind, error.message, error.retry_after, cost, error.limit)
    except Exception as error:
        logger.exception("storing a step's result failed")
        return Failed("unexpected", describe_error(error), cost=cost)
    return result


_ATTEMPTS = """
    INSERT INTO queuemgr_attempt (lease_id, execution_id, phase, step, priority, limit_keys, tokens,
                                  weight, retrying, worker, due_at, leased_at, started_at, ended_at,
                                  outcome, cost, error_kind, error_message)
    SELECT l.id, l.execution_id, l.phase, l.step, l.priority, l.limit_keys, l.tokens, l.weight,
           l.retrying, w.name, l.due_at, l.leased_at, l.started_at, {time}, {text}, {integer}, {text}, {text}
      FROM queuemgr_lease l JOIN queuemgr_worker w ON w.id = l.worker_id
     WHERE l.id IN ({ids})
"""


def _write_attempts(settled: Iterable[OutcomeEffects], now: datetime) -> None:
    """One statement for all that ended alike, copied from the leases inside the database."""
    alike: dict[tuple[Any, ...], list[UUID]] = defaultdict(list)
    for s in settled:
        ending = (s.outcome.value, s.spent, s.kind, clean(s.message) if s.message else "")
        alike[ending].append(s.lease.lease_id)
    for ending, ids in alike.items():
        sql.run(sql.typed(_ATTEMPTS, ids=sql.marks(len(ids))), [now, *ending, *ids])


def _delete(lease_ids: list[UUID]) -> None:
    if lease_ids:
        sql.run(f"DELETE FROM queuemgr_lease WHERE id IN ({sql.marks(len(lease_ids))})", lease_ids)


def _write_moves(settled: Iterable[OutcomeEffects]) -> None:
    alike: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for s in settled:
        alike[s.to, *s.changes.items()].append(s.lease.execution_id)
        if s.context is not None:
            sql.run(
                "UPDATE queuemgr_execution SET context = %s WHERE id = %s",
                [s.context, s.lease.execution_id],
            )
    for (to, *changes), ids in alike.items():
        states.move(ids, to, **dict(changes))


def _write_usage(settled: Iterable[OutcomeEffects]) -> None:
    """Charge what was spent to every limit it passed, on the day of that limit's zone when it was
    leased: the day it was reserved against."""
    paid = [s for s in settled if s.spent]
    if not paid:
        return
    names = {name for s in paid for name in names_of(s.lease.phase, s.lease.limit_keys)}
    rules = rules_of(names, paid[0].lease.leased_at)
    spent: Counter[tuple[date, str]] = Counter()
    for s in paid:
        for name in names_of(s.lease.phase, s.lease.limit_keys):
            zone = rule_for(rules, name).budget_zone
            spent[day_of(s.lease.leased_at, zone), name] += s.spent
    for (day, name), requests in sorted(spent.items()):
        charge(day, name, requests)


def charge(day: date, limit: str, requests: int) -> None:
    """Add to the requests spent on a day under a limit."""
    sql.run(
        "INSERT INTO queuemgr_dailyusage (day, limit_name, spent) VALUES (%s, %s, %s) "
        "ON CONFLICT (day, limit_name) "
        "DO UPDATE SET spent = queuemgr_dailyusage.spent + excluded.spent",
        [day, limit, requests],
    )
