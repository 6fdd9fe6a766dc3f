"""Ending leases: results stored, attempts recorded, executions moved, usage charged, in one transaction.

Whoever no longer holds its lease stores nothing: every ending first locks the lease's row, and one
whose row is gone is dropped. What the freed slots run next is decided in the same transaction.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction

from queuemgr.base import scheduler_lock
from queuemgr.base.budget_day import day_of
from queuemgr.base.errors import StepFailed
from queuemgr.base.redaction import describe_error
from queuemgr.base.scheduler_lock import SchedulerLock
from queuemgr.flows.outcomes import Done, Failed, Lost, Result, Snoozed
from queuemgr.lifecycle import anomalies, leases, log_context, scheduler, states, tracing
from queuemgr.lifecycle.dispatch import for_others, grant_leases
from queuemgr.lifecycle.leases import AttemptEnd, Grant, HeldLease
from queuemgr.lifecycle.outcome_rules import OutcomeEffects, apply_outcome
from queuemgr.models import Lease, LeaseQuerySet, State
from queuemgr.scheduling import breakers, limit_usage, parking, wakeups
from queuemgr.scheduling.claims import names_of
from queuemgr.scheduling.decision_input import rule_for
from queuemgr.scheduling.limit_rules import rules_of

logger = logging.getLogger(__name__)

LOCK_WAIT_MS = 100
"""How long a finish waits for the scheduler lock, since its slot asks for work; then others dispatch."""


@dataclass(frozen=True, slots=True)
class Finish:
    lease_id: UUID
    result: Result


@dataclass(frozen=True, slots=True)
class FinishResult:
    """How each attempt was recorded (leases no longer held are missing), and the leases granted to the
    freed slots and to messages."""

    outcomes: Mapping[UUID, str]
    granted: scheduler.GrantResult


def finish_batch(endings: Sequence[Finish], free_slots: scheduler.FreeSlots | None) -> FinishResult:
    """End these leases and give the freed slots new ones, all in one transaction.

    The caller publishes `granted.to_send` after it returns.
    """
    with transaction.atomic():
        lock = scheduler_lock.try_acquire(LOCK_WAIT_MS)
        now = lock.now if lock else scheduler_lock.database_now()
        outcomes = finish_leases(endings, now, lock)
        anomalies.count(anomalies.OUTCOME_REFUSED, len(endings) - len(outcomes), now)
        began = time.time()
        granted = scheduler.schedule(lock, free_slots) if lock else scheduler.NO_GRANTS
    tracing.record_decision(began, granted)
    return FinishResult(outcomes, for_others(granted if lock else grant_leases()))


class LostLease(NamedTuple):
    """A lease that ended with its worker, and what follows: `requeued, loss 1 of 3`."""

    lease: HeldLease
    follows: str


class Expired(NamedTuple):
    """Leases that expired before a worker started them, and those that were lost with their worker."""

    unstarted: list[Grant]
    lost: list[LostLease]


def expire(lock: SchedulerLock) -> Expired:
    """End every lease that expired, and exactly those."""
    expired = Lease.objects.expired(lock.now)
    grants = leases.grants_of(list(expired.unstarted().values_list("pk", flat=True)))
    revoked = {lease.id for lease in leases.revoke_unstarted(grant.lease_id for grant in grants)}
    anomalies.count(anomalies.LEASE_EXPIRED_UNSTARTED, len(revoked), lock.now)
    unstarted = [grant for grant in grants if grant.lease_id in revoked]
    return Expired(unstarted, _lose(expired.started(), lock, expired_by=lock.now))


def end_leases_of_dead_worker(lock: SchedulerLock, worker_id: int) -> list[LostLease]:
    """End the leases of a worker known to be dead, without waiting for them to expire."""
    return _lose(Lease.objects.filter(worker_id=worker_id), lock)


def _lose(held: LeaseQuerySet, lock: SchedulerLock, *, expired_by: datetime | None = None) -> list[LostLease]:
    endings = [Finish(pk, Lost()) for pk in held.values_list("pk", flat=True)]
    effects = _finish(endings, lock.now, lock, expired_by=expired_by)
    return [LostLease(e.lease, e.follows) for e in effects]


def finish_leases(
    endings: Iterable[Finish], now: datetime, lock: SchedulerLock | None = None
) -> dict[UUID, str]:
    """Write the effects of these endings; returns the outcome recorded for each lease still held."""
    return {e.lease.lease_id: e.attempt.outcome.value for e in _finish(endings, now, lock)}


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
    held = leases.lock_rows(list(results), expired_by)
    effects = [apply_outcome(lease, _store(lease, results[lease.lease_id]), now) for lease in held]
    ends: dict[AttemptEnd, list[UUID]] = defaultdict(list)
    for e in effects:
        ends[e.attempt].append(e.lease.lease_id)
    leases.record_attempts(ends, now)
    leases.delete([lease.lease_id for lease in held])
    _write_moves(effects)
    _write_usage(effects)
    _unpark(effects, _report_to_limits(effects, now), lock)
    return effects


def _store(lease: HeldLease, result: Result) -> Result:
    """Run the step's own store inside our transaction; if that fails, the step has failed."""
    if not isinstance(result, Done | Snoozed | Failed) or result.store is None:
        return result
    cost = None if isinstance(result, Snoozed) else result.cost
    try:
        with transaction.atomic():
            result.store()
    except StepFailed as error:
        return Failed(error.kind, error.message, error.retry_after, cost, error.limit)
    except Exception as error:
        with log_context.about(lease, lease.worker):
            logger.exception("%s: storing its result failed", lease)
        return Failed("unexpected", describe_error(error), cost=cost)
    return result


def _write_moves(effects: Iterable[OutcomeEffects]) -> None:
    """One statement for all that move alike."""
    alike: dict[tuple[State, tuple[tuple[str, Any], ...]], list[int]] = defaultdict(list)
    for e in effects:
        alike[e.to, tuple(e.changes.items())].append(e.lease.execution_id)
        if e.context is not None:
            states.save_context(e.lease.execution_id, e.context)
    for (to, changes), ids in alike.items():
        states.move(ids, to, **dict(changes))


def _write_usage(effects: Iterable[OutcomeEffects]) -> None:
    """Charge what was spent to every limit it passed, on the day (in the limit's zone) when it was
    leased: the day it was reserved against."""
    paid = [e for e in effects if e.attempt.cost]
    if not paid:
        return
    names = {name for e in paid for name in names_of(e.lease.phase, e.lease.limit_keys)}
    rules = rules_of(names, paid[0].lease.leased_at)
    spent: Counter[tuple[date, str]] = Counter()
    for e in paid:
        for name in names_of(e.lease.phase, e.lease.limit_keys):
            zone = rule_for(rules, name).budget_zone
            spent[day_of(e.lease.leased_at, zone), name] += e.attempt.cost
    for (day, name), requests in sorted(spent.items()):
        limit_usage.charge(day, name, requests)


def _report_to_limits(effects: Iterable[OutcomeEffects], now: datetime) -> set[str]:
    """Report the results (the service's, if the step named one, else the step's own) to the limits'
    breakers; returns the limits that now let more start."""
    reports = []
    for e in effects:
        service = e.result.service_result if isinstance(e.result, Snoozed | Done) else None
        reports.append(breakers.ServiceReport(e.lease.limit_keys, e.lease.leased_at, service or e.result))
    names = {name for report in reports for name in report.limits}
    return breakers.record_results(reports, rules_of(names, now), now) if names else set()


def _unpark(effects: Iterable[OutcomeEffects], limits: set[str], lock: SchedulerLock | None) -> None:
    """Unpark the routes this work now waits on, and the routes parked on these limits and those it freed."""
    routes = {e.changes["route_id"] for e in effects if e.changes.get("route_id")}
    for e in effects:
        refunded = e.attempt.cost < e.lease.cost
        limits |= wakeups.freed_by(e.lease.phase, e.lease.limit_keys, e.lease.tokens, refunded=refunded)
    if lock:
        parking.unpark(lock, routes, limits)
    else:
        wakeups.post(routes, limits)
