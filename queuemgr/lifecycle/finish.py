"""Ending leases: results stored, attempts recorded, executions moved, usage charged, in one transaction.

Whoever no longer holds its lease stores nothing: every ending first locks the lease's row, and one
whose row is gone is dropped. What is written needs no other lock. What the freed slots run next is
decided after it, in the same transaction where the scheduler lock is free, else in another.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from queuemgr.base import scheduler_lock, sql, transaction
from queuemgr.base.config import queue_settings
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.outcomes import Failed, Lost, Result
from queuemgr.lifecycle import (
    anomalies,
    attempts,
    execution_signals,
    lease_locks,
    leases,
    provider_answers,
    result_store,
    scheduler,
    states,
    usage,
    webhook_events,
    webhook_failures,
)
from queuemgr.lifecycle.continuation import Continuation, continuation_of
from queuemgr.lifecycle.dispatch import decide
from queuemgr.lifecycle.lease_locks import HeldLease
from queuemgr.lifecycle.outcome_rules import Ended, OutcomeEffects, apply_outcome
from queuemgr.lifecycle.result_store import TransactionBroken
from queuemgr.models import LeaseQuerySet, State
from queuemgr.scheduling import breakers, provider_limits, routes, wakeups
from queuemgr.scheduling.limit_rules import rules_of
from queuemgr.scheduling.parking import Woken

logger = logging.getLogger(__name__)

LOCK_WAIT_MS = 100
"""How long slots that came free wait for the scheduler lock; then whoever holds it decides for them."""

STORE_RUNS = 3
"""How often a store may lose the database under it before the store is held to be the cause."""


@dataclass(frozen=True, slots=True)
class Finish:
    """How a lease ended. `continuation` says where that leads, if it is known; else the flow's rules are
    asked in the transaction. `log`: what its step logged, stored if the attempt fails."""

    lease_id: UUID
    result: Result
    continuation: Continuation | None = None
    log: str = ""


@dataclass(frozen=True, slots=True)
class FinishResult:
    """How each attempt was recorded (leases no longer held are missing), and the leases granted to the
    freed slots and to messages; None when another process was deciding. Who got leases looks for marks
    (`dispatch.for_others`)."""

    outcomes: Mapping[UUID, str]
    granted: scheduler.GrantResult | None


def finish_batch(endings: Sequence[Finish], free_slots: scheduler.FreeSlots | None) -> FinishResult:
    """End these leases and, where the scheduler lock is free, give the freed slots new ones.

    The caller publishes `granted.to_send` after it returns, or decides with `dispatch.grant_to`. Raises
    `RowsBusy`, with nothing ended, where somebody has locked the rows of some of them: they are to be left
    out. For whatever else somebody holds it waits `ROW_WAIT_MS` at most.
    """
    with transaction.atomic():
        now = scheduler_lock.end_when_frozen(row_wait_ms=scheduler_lock.ROW_WAIT_MS)
        effects = _finish(endings, now, lease_locks.lock_free_rows)
        outcomes = _outcomes(effects)
        anomalies.count(anomalies.OUTCOME_REFUSED, len(endings) - len(outcomes), now)
        changed = _changed(effects, now)
        lock = scheduler_lock.try_acquire()
        if lock is None:
            wakeups.post(*changed)
        return FinishResult(outcomes, decide(lock, free_slots, changed) if lock else None)


class StoreRuns:
    """How often the store of one result may still be run: it may be what ends the database's sessions."""

    def __init__(self) -> None:
        self.left = STORE_RUNS

    def may_run_again(self, broken: TransactionBroken) -> bool:
        self.left -= 1
        return broken.may_pass and self.left > 0


def finish_with_store(ending: Finish, runs: StoreRuns) -> str | None:
    """End one lease in the transaction that runs its store; returns the outcome recorded, None if the
    lease was no longer held. Takes no lock but that of the lease, however long the store takes.

    Raises the database's errors while it is away; the caller tries again, with the same `runs`.
    """
    while True:
        try:
            return _store_and_finish(ending)
        except TransactionBroken as broken:
            if not runs.may_run_again(broken):
                return _store_and_finish(replace(ending, result=broken.instead, continuation=None))
            logger.warning("the store of lease %s is run again: %s", ending.lease_id, broken)


def _store_and_finish(ending: Finish) -> str | None:
    with transaction.atomic():
        now = scheduler_lock.end_when_frozen(int(queue_settings().store_seconds))
        effects = _finish([ending], now)
        anomalies.count(anomalies.OUTCOME_REFUSED, 1 - len(effects), now)
        wakeups.post(*_changed(effects, now))
    return _outcomes(effects).get(ending.lease_id)


class LostLease(NamedTuple):
    """A lease that ended with its worker, why, and what follows: `requeued, loss 1 of 3`."""

    lease: HeldLease
    cause: str
    follows: str


@transaction.atomic
def finish_alone(ending: Finish, row_wait_ms: int) -> str | None:
    """End this lease, and decide nothing: returns the outcome recorded, None if it was no longer held.
    Raises `RowsBusy`, or an error that `sql.is_busy` knows, where somebody holds a row it needs."""
    now = scheduler_lock.end_when_frozen(row_wait_ms=row_wait_ms)
    effects = _finish([ending], now, lease_locks.lock_free_rows)
    wakeups.post(*_changed(effects, now))
    return _outcomes(effects).get(ending.lease_id)


@transaction.atomic
def finish_leases(endings: Iterable[Finish], now: datetime) -> dict[UUID, str]:
    """Write the effects of these endings; returns the outcome recorded for each lease still held."""
    effects = _finish(list(endings), now)
    wakeups.post(*_changed(effects, now))
    return _outcomes(effects)


LOST_AT_ONCE = 500
"""Leases of lost workers ended in one transaction."""


def lose(
    held: LeaseQuerySet, cause: Callable[[HeldLease], str], *, expired_by: datetime | None = None
) -> list[LostLease]:
    """End these leases, whose workers are gone, and whose rows nobody else is ending."""
    ids, lost = list(held.order_by("pk").values_list("pk", flat=True)), list[LostLease]()
    for start in range(0, len(ids), LOST_AT_ONCE):
        lost += _lose(ids[start : start + LOST_AT_ONCE], cause, expired_by)
    return lost


def _lose(
    ids: Sequence[UUID], cause: Callable[[HeldLease], str], expired_by: datetime | None
) -> list[LostLease]:
    """End these in one transaction; one that cannot be ended keeps none of the others from it."""
    try:
        with transaction.atomic():
            scheduler_lock.limit_row_waits(scheduler_lock.ROW_WAIT_MS)
            ended = lease_locks.lock_ownerless(ids, expired_by)
            return _end_abandoned([(lease, Lost(cause(lease))) for lease in ended])
    except Exception as error:
        if sql.is_away(error):
            raise
        if len(ids) == 1:
            if sql.is_passing(error):
                logger.warning("lease %s of a lost worker is ended later: %s", ids[0], sql.trouble(error))
            else:
                logger.exception("lease %s of a lost worker could not be ended", ids[0])
            return []
    return [lost for pk in ids for lost in _lose([pk], cause, expired_by)]


@transaction.atomic
def end_abandoned(lease_id: UUID, outcome: Failed | Lost) -> list[LostLease]:
    """End the lease of a process that can no longer end it; empty if it ended before. Waits `ROW_WAIT_MS` at
    most for a row that somebody holds."""
    scheduler_lock.limit_row_waits(scheduler_lock.ROW_WAIT_MS)
    return _end_abandoned([(lease, outcome) for lease in lease_locks.lock_rows([lease_id])])


def _end_abandoned(outcomes: Sequence[tuple[HeldLease, Failed | Lost]]) -> list[LostLease]:
    now = database_now()
    endings = {lease.lease_id: Finish(lease.lease_id, outcome) for lease, outcome in outcomes}
    effects = _write([lease for lease, _ in outcomes], endings, now)
    wakeups.post(*_changed(effects, now))
    return [LostLease(e.lease, e.attempt.error_message, e.follows or e.to.label) for e in effects]


def _outcomes(effects: Iterable[OutcomeEffects]) -> dict[UUID, str]:
    return {e.lease.lease_id: e.attempt.outcome.value for e in effects}


Lock = Callable[[Sequence[UUID]], list[HeldLease]]


def _finish(endings: Sequence[Finish], now: datetime, lock: Lock | None = None) -> list[OutcomeEffects]:
    """End those of these leases that are still held."""
    if not endings:
        return []
    by_lease = {ending.lease_id: ending for ending in endings}
    return _write((lock or lease_locks.lock_rows)(list(by_lease)), by_lease, now)


def _write(held: Sequence[HeldLease], endings: Mapping[UUID, Finish], now: datetime) -> list[OutcomeEffects]:
    """Run the stores of these leases, whose rows are locked, and write what their endings change."""
    ended = [_stored(lease, endings[lease.lease_id]) for lease in held]
    history = attempts.history_of(held, {ending.lease_id: ending.result for ending in ended})
    effects = _routed(
        apply_outcome(Ended(lease, ending.result, ending.continuation, history, now))
        for lease, ending in zip(held, ended, strict=True)
    )
    moves = _moves(effects)
    alone = moves.pop() if len(moves) == 1 else None
    leases.record_attempts({e.lease.lease_id: e.attempt for e in effects}, now, alone)
    failed = (e.lease.lease_id for e in effects if e.attempt.error_kind)
    leases.record_logs({lease_id: endings[lease_id].log for lease_id in failed})
    for move in moves:
        states.make(move)
    for e in effects:
        if e.context is not None:
            states.save_context(e.lease.execution_id, e.context)
    usage.charge(effects, now)
    execution_signals.ended(effects)
    webhook_events.ended(effects, now)
    webhook_failures.judge(effects, now)
    return effects


def _routed(effects: Iterable[OutcomeEffects]) -> list[OutcomeEffects]:
    """With the id of the route that each execution waits on, if it waits."""
    effects = list(effects)
    ids = routes.ids_of(e.route for e in effects if e.route)
    return [replace(e, changes={**e.changes, "route_id": ids[e.route] if e.route else None}) for e in effects]


def _stored(lease: HeldLease, ending: Finish) -> Finish:
    """The ending after its store ran; where it leads is found out if that is not known."""
    result = result_store.run(lease, ending.result)
    if result is ending.result and ending.continuation is not None:
        return ending
    return Finish(lease.lease_id, result, continuation_of(lease, result), ending.log)


def _moves(effects: Iterable[OutcomeEffects]) -> list[states.Move]:
    """A statement for all that move alike, and one for all that differ in the values only."""
    alike: dict[tuple[State, tuple[str, ...]], dict[int, dict[str, Any]]] = defaultdict(dict)
    for e in effects:
        alike[e.to, tuple(e.changes)][e.lease.execution_id] = dict(e.changes)
    return [states.each_move(rows, to) for (to, _), rows in alike.items()]


def _changed(effects: Sequence[OutcomeEffects], now: datetime) -> Woken:
    """What endings make possible again: routes that work waits on now, and limits with something left."""
    limits = _report_to_limits(effects, now)
    for e in effects:
        refunded = usage.is_refunded(e)
        limits |= wakeups.freed_by(e.lease.phase, e.lease.limit_keys, e.lease.resources, refunded=refunded)
    return Woken({e.changes["route_id"] for e in effects if e.route}, limits)


def _report_to_limits(effects: Sequence[OutcomeEffects], now: datetime) -> set[str]:
    """Report the results (the service's, if the step named one, else the step's own) to the limits'
    breakers; returns the limits that now let more start."""
    reported = provider_answers.reported_by(effects, now)
    reports = []
    for e in effects:
        if isinstance(e.result, Failed) and not e.result.blames_service:
            continue
        result = provider_answers.of_service(e.result)
        if provider_answers.refused_meter(result):
            continue  # it closes the meter, and says nothing of the rest
        reports.append(breakers.ServiceReport(e.lease.limit_keys, e.lease.leased_at, result))
    failed = {name for report in reports if isinstance(report.result, Failed) for name in report.limits}
    if not failed and not any(e.lease.limits_failed for e in effects):
        reports = []  # a success changes nothing where no failure is counted
    names = {name for report in reports for name in report.limits}
    if reported:
        breakers.lock(sorted({*reported, *names}))  # in one order with those below
        provider_limits.change(reported)
    return breakers.record_results(reports, rules_of(failed, now) if failed else {}, now)
