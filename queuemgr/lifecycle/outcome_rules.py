"""What an ending means: for the execution, for the attempt's record, for the budget.

The rules of one place for every way a step can end. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from queuemgr.base.config import queue_settings
from queuemgr.base.errors import UnknownFlow, UnknownStep
from queuemgr.base.redaction import clean
from queuemgr.flows import retry_policy
from queuemgr.flows.flow import StepRef, get_flow
from queuemgr.flows.outcomes import Done, Failed, Interrupted, Lost, Result, Skipped, Snoozed
from queuemgr.lifecycle.error_fingerprint import fingerprint
from queuemgr.models import Attempt, Outcome, State
from queuemgr.scheduling import retry_policies, routes


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease whose row is locked, with what is known of its execution."""

    lease_id: UUID
    execution_id: int
    flow: str
    phase: str
    step: str
    priority: int
    limit_keys: str
    tokens: str
    cost: int
    weight: int
    said_spent: int
    worker: str
    cancel_requested_by: str
    leased_at: datetime
    attempts_counted_since: datetime
    payload: dict[str, Any]
    context: dict[str, Any]


@dataclass(slots=True)
class OutcomeEffects:
    """What one ending means, as rows to be: the execution's state and columns, the attempt, the cost."""

    lease: HeldLease
    to: State
    outcome: Outcome
    result: Result
    changes: dict[str, Any] = field(default_factory=dict)
    context: dict[str, Any] | None = None
    kind: str = ""
    message: str = ""
    cost: int | None = None

    @property
    def spent(self) -> int:
        """Requests to charge: what the step says it used, at its end or on its way. A step that said
        nothing is charged what was reserved for it, and nothing if it did not come to an end."""
        if self.cost is not None:
            return self.cost
        broken_off = isinstance(self.result, Interrupted | Lost)
        return self.lease.said_spent or (0 if broken_off else self.lease.cost)


def apply_outcome(lease: HeldLease, result: Result, now: datetime) -> OutcomeEffects:
    """What this result of this lease means."""
    try:
        settled = _RULES[type(result)](lease, result, now)
    except (UnknownFlow, UnknownStep) as error:
        settled = _give_up(lease, Failed("unexpected", str(error)), now)
    settled.result = result
    if lease.cancel_requested_by and settled.to == State.WAITING:
        settled.to, settled.outcome = State.CANCELLED, Outcome.CANCELLED
        settled.changes = _final(now, wait_reason=f"cancelled by {lease.cancel_requested_by}")
    return settled


def _on_done(lease: HeldLease, done: Done, now: datetime) -> OutcomeEffects:
    context = {**lease.context, **done.context}
    known = {**lease.payload, **context}
    place = get_flow(lease.flow).after(lease.phase, lease.step, known)
    if place is None:
        settled = OutcomeEffects(lease, State.DONE, Outcome.DONE, done, _final(now))
    else:
        changes = _advance(place, lease, known, now)
        settled = OutcomeEffects(lease, State.WAITING, Outcome.DONE, done, changes)
    settled.context = context if done.context else None
    settled.cost = done.cost
    return settled


def _on_skipped(lease: HeldLease, skipped: Skipped, now: datetime) -> OutcomeEffects:
    changes = _final(now, wait_reason=clean(skipped.reason)[:200])
    return OutcomeEffects(
        lease, State.SKIPPED, Outcome.SKIPPED, skipped, changes, message=skipped.reason
    )


def _on_snoozed(lease: HeldLease, snoozed: Snoozed, now: datetime) -> OutcomeEffects:
    changes = _requeue(lease, now + timedelta(seconds=snoozed.seconds), snoozed.reason)
    settled = OutcomeEffects(lease, State.WAITING, Outcome.SNOOZED, snoozed, changes)
    settled.message, settled.cost = snoozed.reason, lease.said_spent
    if snoozed.context:
        settled.context = {**lease.context, **snoozed.context}
        changes["route_id"] = _route_of(get_flow(lease.flow).at(lease.phase, lease.step), settled)
    return settled


def _route_of(place: StepRef, settled: OutcomeEffects) -> int:
    """Where work waits for this step of a phase already begun, by all that is known of it now."""
    lease = settled.lease
    known = {**lease.payload, **(settled.context or lease.context)}
    return routes.route_id(routes.kind_of(place, lease.priority, known, resumed=True))


def _on_interrupted(lease: HeldLease, stopped: Interrupted, now: datetime) -> OutcomeEffects:
    changes = _requeue(lease, now, "")
    return OutcomeEffects(
        lease, State.WAITING, Outcome.INTERRUPTED, stopped, changes, message=stopped.reason
    )


def _on_failed(lease: HeldLease, failed: Failed, now: datetime) -> OutcomeEffects:
    number = 1 + _attempts(lease, Outcome.RETRIED, Outcome.FAILED).count()
    policy = retry_policies.policy_for(failed.kind, lease.phase)
    decision = retry_policy.decide(policy, number, retry_after=failed.retry_after)
    if not decision.again:
        return _give_up(lease, failed, now)
    reason = f"try {number + 1} of {policy.max_attempts} after {failed.kind}"
    changes = _requeue(lease, now + timedelta(seconds=decision.wait), reason, retrying=True)
    changes |= _error(lease, failed.kind, failed.message)
    return _with_error(
        OutcomeEffects(lease, State.WAITING, Outcome.RETRIED, failed, changes), failed
    )


def _give_up(lease: HeldLease, failed: Failed, now: datetime) -> OutcomeEffects:
    changes = _final(now, **_error(lease, failed.kind, failed.message))
    return _with_error(OutcomeEffects(lease, State.FAILED, Outcome.FAILED, failed, changes), failed)


def _error(lease: HeldLease, kind: str, message: str) -> dict[str, str]:
    """An error as columns of the execution."""
    kept = clean(message)
    found = fingerprint(kind, lease.step, kept)
    return {"error_kind": kind, "error_message": kept, "error_fingerprint": found}


def _with_error(settled: OutcomeEffects, failed: Failed) -> OutcomeEffects:
    settled.kind, settled.message, settled.cost = failed.kind, failed.message, failed.cost
    return settled


def _on_lost(lease: HeldLease, lost: Lost, now: datetime) -> OutcomeEffects:
    message = f"worker {lease.worker} stopped renewing its lease"
    losses = _attempts(lease, Outcome.LOST)
    number = 1 + losses.count()
    if number < retry_policy.MAX_LOSSES or (
        number < retry_policy.MAX_LOSSES_WITH_NEIGHBOURS and _lost_with_neighbours(losses)
    ):
        wait = retry_policy.loss_delay(number, queue_settings().lease_seconds)
        changes = _requeue(lease, now + timedelta(seconds=wait), "")
        return OutcomeEffects(lease, State.WAITING, Outcome.LOST, lost, changes, message=message)
    message = f"its worker was lost {number} times at step {lease.step}; last: {message}"
    changes = _final(now, **_error(lease, "poison", message))
    return OutcomeEffects(lease, State.FAILED, Outcome.LOST, lost, changes, None, "poison", message)


def _lost_with_neighbours(losses: QuerySet[Attempt]) -> bool:
    """Was some other work under way beside each of these, and lost too? It may be the one to blame.

    Leases of one dead worker that were renewed at different times run out at different ticks, so
    it is their time under way that is compared, not the moment they were found lost.
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


def _attempts(lease: HeldLease, *outcomes: Outcome) -> QuerySet[Attempt]:
    """Attempts that ended so at this step since it was enqueued, or last retried by a person."""
    return Attempt.objects.filter(
        execution_id=lease.execution_id,
        phase=lease.phase,
        step=lease.step,
        outcome__in=outcomes,
        leased_at__gte=lease.attempts_counted_since,
    )


def _advance(
    place: StepRef, lease: HeldLease, known: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """At the next step; work in a phase already begun goes before work that would begin it."""
    resumed = place.phase.name == lease.phase
    return {
        "phase": place.phase.name,
        "step": place.step.name,
        "resumed": resumed,
        "route_id": routes.route_id(routes.kind_of(place, lease.priority, known, resumed=resumed)),
        "run_after": now,
        **_CLEARED,
    }


def _requeue(
    lease: HeldLease, when: datetime, reason: str, *, retrying: bool = False
) -> dict[str, Any]:
    """The same step once more, ahead of work whose phase was not begun."""
    kind = routes.RouteKind(
        lease.phase, lease.priority, True, lease.limit_keys, lease.cost, lease.weight, lease.tokens,
        retrying,
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
