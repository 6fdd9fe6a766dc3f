"""Maps a step's outcome to state changes, the attempt record and the budget charge. Pure except for reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from queuemgr.base.config import queue_settings
from queuemgr.base.errors import UnknownFlow, UnknownStep
from queuemgr.base.redaction import clean
from queuemgr.flows import retry_policy
from queuemgr.flows.flow import StepRef, get_flow
from queuemgr.flows.outcomes import Done, Failed, Interrupted, Lost, Result, Skipped, Snoozed
from queuemgr.lifecycle import attempts
from queuemgr.lifecycle.error_fingerprint import fingerprint
from queuemgr.lifecycle.leases import AttemptEnd, HeldLease
from queuemgr.models import Attempt, Outcome, State
from queuemgr.scheduling import retry_policies, routes
from queuemgr.scheduling.claims import RouteKind


@dataclass(frozen=True, slots=True)
class OutcomeEffects:
    """What the end of a lease changes: the execution's state and columns, its context if that changed,
    and how the attempt is recorded (with the requests to charge).

    `follows` says for the log what follows a loss.
    """

    lease: HeldLease
    result: Result
    to: State
    changes: Mapping[str, Any]
    attempt: AttemptEnd
    context: dict[str, Any] | None = None
    follows: str = ""


def apply_outcome(lease: HeldLease, result: Result, now: datetime) -> OutcomeEffects:
    try:
        return _RULES[type(result)](lease, result, now)
    except (UnknownFlow, UnknownStep) as error:
        return _fail(lease, result, "unexpected", str(error), now)


def _on_done(lease: HeldLease, done: Done, now: datetime) -> OutcomeEffects:
    context = {**lease.context, **done.context} if done.context else None
    known = {**lease.payload, **(context or lease.context)}
    attempt = AttemptEnd(Outcome.DONE, _cost(lease, done))
    next_step = get_flow(lease.flow).after(lease.phase, lease.step, known)
    if next_step is None:
        return OutcomeEffects(lease, done, State.DONE, _final(now), attempt, context)
    return _wait(lease, done, _advance(next_step, lease, known, now), attempt, now, context)


def _on_skipped(lease: HeldLease, skipped: Skipped, now: datetime) -> OutcomeEffects:
    attempt = AttemptEnd(Outcome.SKIPPED, _cost(lease, skipped), "", skipped.reason)
    changes = _final(now, wait_reason=clean(skipped.reason)[:200])
    return OutcomeEffects(lease, skipped, State.SKIPPED, changes, attempt)


def _on_snoozed(lease: HeldLease, snoozed: Snoozed, now: datetime) -> OutcomeEffects:
    attempt = AttemptEnd(Outcome.SNOOZED, lease.reported_cost, "", snoozed.reason)
    changes = _requeue(lease, now + timedelta(seconds=snoozed.seconds), snoozed.reason)
    if not snoozed.context:
        return _wait(lease, snoozed, changes, attempt, now)
    context = {**lease.context, **snoozed.context}
    step = get_flow(lease.flow).at(lease.phase, lease.step)
    kind = routes.kind_of(step, lease.priority, {**lease.payload, **context}, resumed=True)
    changes["route_id"] = routes.route_id(kind)
    return _wait(lease, snoozed, changes, attempt, now, context)


def _on_interrupted(lease: HeldLease, stopped: Interrupted, now: datetime) -> OutcomeEffects:
    attempt = AttemptEnd(Outcome.INTERRUPTED, _cost(lease, stopped), "", stopped.reason)
    return _wait(lease, stopped, _requeue(lease, now, ""), attempt, now)


def _on_failed(lease: HeldLease, failed: Failed, now: datetime) -> OutcomeEffects:
    failures = attempts.counted(lease, lease.attempts_counted_since, Outcome.RETRIED, Outcome.FAILED)
    number = 1 + failures.count()
    policy = retry_policies.policy_for(failed.kind, lease.phase)
    delay = retry_policy.retry_delay(policy, number, retry_after=failed.retry_after)
    if delay is None:
        return _fail(lease, failed, failed.kind, failed.message, now)
    reason = f"attempt {number + 1} of {policy.max_attempts} after {failed.kind}"
    changes = _requeue(lease, now + timedelta(seconds=delay), reason, retrying=True)
    changes |= _error(lease, failed.kind, failed.message)
    attempt = AttemptEnd(Outcome.RETRIED, _cost(lease, failed), failed.kind, failed.message)
    return _wait(lease, failed, changes, attempt, now)


def _on_lost(lease: HeldLease, lost: Lost, now: datetime) -> OutcomeEffects:
    message = f"worker {lease.worker} stopped renewing its lease"
    losses = attempts.counted(lease, lease.attempts_counted_since, Outcome.LOST)
    number, most = 1 + losses.count(), retry_policy.MAX_LOSSES
    if number >= most and _lost_with_neighbours(losses):
        most = retry_policy.MAX_LOSSES_WITH_NEIGHBOURS
    if number >= most:
        message = f"its worker was lost {number} times at step {lease.step}; last: {message}"
        failed = _fail(lease, lost, "poison", message, now, outcome=Outcome.LOST)
        return replace(failed, follows="failed as poison")
    wait = retry_policy.loss_delay(number, queue_settings().lease_seconds)
    attempt = AttemptEnd(Outcome.LOST, _cost(lease, lost), "", message)
    waits = _wait(lease, lost, _requeue(lease, now + timedelta(seconds=wait), ""), attempt, now)
    cancelled = waits.to == State.CANCELLED
    return replace(waits, follows="cancelled" if cancelled else f"requeued, loss {number} of {most}")


def _lost_with_neighbours(losses: QuerySet[Attempt]) -> bool:
    """True if the same other execution was running on the worker, and lost, every time this one was: it
    may be the one that kills the worker.

    Leases of one dead worker that were renewed at different times expire at different ticks, so the
    times they ran are compared, not the moments they were found lost.
    """
    suspects: set[int] | None = None
    for loss in losses:
        beside = Attempt.objects.filter(
            worker=loss.worker,
            outcome=Outcome.LOST,
            started_at__lt=loss.ended_at,
            ended_at__gt=loss.started_at,
        ).exclude(execution_id=loss.execution_id)
        there = set(beside.values_list("execution_id", flat=True))
        suspects = there if suspects is None else suspects & there
    return bool(suspects)


_RULES: Mapping[type, Callable[[HeldLease, Any, datetime], OutcomeEffects]] = {
    Done: _on_done,
    Skipped: _on_skipped,
    Snoozed: _on_snoozed,
    Failed: _on_failed,
    Interrupted: _on_interrupted,
    Lost: _on_lost,
}


def _cost(lease: HeldLease, result: Result) -> int:
    """Requests to charge: what the step says it used, at its end or while it ran. A step that said
    nothing is charged what was reserved for it, and nothing if it was broken off."""
    if isinstance(result, Done | Failed) and result.cost is not None:
        return result.cost
    broken_off = isinstance(result, Interrupted | Lost)
    return lease.reported_cost or (0 if broken_off else lease.cost)


def _wait(
    lease: HeldLease,
    result: Result,
    changes: Mapping[str, Any],
    attempt: AttemptEnd,
    now: datetime,
    context: dict[str, Any] | None = None,
) -> OutcomeEffects:
    """The execution waits again, unless a person asked to cancel it meanwhile: then it is cancelled."""
    if not lease.cancel_requested_by:
        return OutcomeEffects(lease, result, State.WAITING, changes, attempt, context)
    cancelled = _final(now, wait_reason=f"cancelled by {lease.cancel_requested_by}")
    attempt = attempt._replace(outcome=Outcome.CANCELLED)
    return OutcomeEffects(lease, result, State.CANCELLED, cancelled, attempt, context)


def _fail(
    lease: HeldLease, result: Result, kind: str, message: str, now: datetime,
    *, outcome: Outcome = Outcome.FAILED,
) -> OutcomeEffects:  # fmt: skip
    changes = _final(now, **_error(lease, kind, message))
    attempt = AttemptEnd(outcome, _cost(lease, result), kind, message)
    return OutcomeEffects(lease, result, State.FAILED, changes, attempt)


def _error(lease: HeldLease, kind: str, message: str) -> dict[str, str]:
    cleaned = clean(message)
    return {
        "error_kind": kind,
        "error_message": cleaned,
        "error_fingerprint": fingerprint(kind, lease.step, cleaned),
    }


def _advance(step: StepRef, lease: HeldLease, known: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Continue with the next step; in a phase already begun, ahead of work that would begin it."""
    resumed = step.phase.name == lease.phase
    return {
        "phase": step.phase.name,
        "step": step.step.name,
        "resumed": resumed,
        "route_id": routes.route_id(routes.kind_of(step, lease.priority, known, resumed=resumed)),
        "run_after": now,
        **_CLEARED,
    }


def _requeue(lease: HeldLease, when: datetime, reason: str, *, retrying: bool = False) -> dict[str, Any]:
    """Requeue the same step, ahead of executions that have not entered the phase."""
    kind = RouteKind(
        phase=lease.phase, priority=lease.priority, resumed=True, limit_keys=lease.limit_keys,
        cost=lease.cost, weight=lease.weight, tokens=lease.tokens, retrying=retrying,
    )  # fmt: skip
    return {
        "resumed": True,
        "route_id": routes.route_id(kind),
        "run_after": when,
        "wait_reason": clean(reason)[:200],
    }


_CLEARED = {"error_kind": "", "error_message": "", "error_fingerprint": "", "wait_reason": ""}


def _final(now: datetime, **changes: Any) -> dict[str, Any]:
    return {**_CLEARED, **changes, "finished_at": now, "route_id": None}
