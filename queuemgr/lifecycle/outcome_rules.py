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

from queuemgr.base.config import queue_knobs
from queuemgr.base.errors import UnknownFlow, UnknownStep
from queuemgr.base.redaction import clean
from queuemgr.flows import retry_policy
from queuemgr.flows.flow import Place, get_flow
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
    cancel_by: str
    leased_at: datetime
    tries_from: datetime
    payload: dict[str, Any]
    context: dict[str, Any]


@dataclass(slots=True)
class Settlement:
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


def follow_up(lease: HeldLease, result: Result, now: datetime) -> Settlement:
    """What this result of this lease means."""
    try:
        settled = _RULES[type(result)](lease, result, now)
    except (UnknownFlow, UnknownStep) as error:
        settled = _given_up(lease, Failed("unexpected", str(error)), now)
    settled.result = result
    if lease.cancel_by and settled.to == State.WAITING:
        settled.to, settled.outcome = State.CANCELLED, Outcome.CANCELLED
        settled.changes = _final(now, wait_reason=f"cancelled by {lease.cancel_by}")
    return settled


def _after_done(lease: HeldLease, done: Done, now: datetime) -> Settlement:
    context = {**lease.context, **done.context}
    known = {**lease.payload, **context}
    place = get_flow(lease.flow).after(lease.phase, lease.step, known)
    if place is None:
        settled = Settlement(lease, State.DONE, Outcome.DONE, done, _final(now))
    else:
        changes = _next(place, lease, known, now)
        settled = Settlement(lease, State.WAITING, Outcome.DONE, done, changes)
    settled.context = context if done.context else None
    settled.cost = done.cost
    return settled


def _after_skip(lease: HeldLease, skipped: Skipped, now: datetime) -> Settlement:
    changes = _final(now, wait_reason=clean(skipped.reason)[:200])
    return Settlement(
        lease, State.SKIPPED, Outcome.SKIPPED, skipped, changes, message=skipped.reason
    )


def _after_snooze(lease: HeldLease, snoozed: Snoozed, now: datetime) -> Settlement:
    changes = _again(lease, now + timedelta(seconds=snoozed.seconds), snoozed.reason)
    settled = Settlement(lease, State.WAITING, Outcome.SNOOZED, snoozed, changes)
    settled.message, settled.cost = snoozed.reason, lease.said_spent
    if snoozed.context:
        settled.context = {**lease.context, **snoozed.context}
        changes["route_id"] = _route_of(get_flow(lease.flow).at(lease.phase, lease.step), settled)
    return settled


def _route_of(place: Place, settled: Settlement) -> int:
    """Where work waits for this step of a phase already begun, by all that is known of it now."""
    lease = settled.lease
    known = {**lease.payload, **(settled.context or lease.context)}
    return routes.route_id(routes.kind_of(place, lease.priority, known, resumed=True))


def _after_interruption(lease: HeldLease, stopped: Interrupted, now: datetime) -> Settlement:
    changes = _again(lease, now, "")
    return Settlement(
        lease, State.WAITING, Outcome.INTERRUPTED, stopped, changes, message=stopped.reason
    )


def _after_failure(lease: HeldLease, failed: Failed, now: datetime) -> Settlement:
    number = 1 + _attempts(lease, Outcome.RETRIED, Outcome.FAILED).count()
    policy = retry_policies.policy_for(failed.kind, lease.phase)
    decision = retry_policy.decide(policy, number, retry_after=failed.retry_after)
    if not decision.again:
        return _given_up(lease, failed, now)
    reason = f"try {number + 1} of {policy.max_attempts} after {failed.kind}"
    changes = _again(lease, now + timedelta(seconds=decision.wait), reason, retrying=True)
    changes |= _error(lease, failed.kind, failed.message)
    return _with_error(Settlement(lease, State.WAITING, Outcome.RETRIED, failed, changes), failed)


def _given_up(lease: HeldLease, failed: Failed, now: datetime) -> Settlement:
    changes = _final(now, **_error(lease, failed.kind, failed.message))
    return _with_error(Settlement(lease, State.FAILED, Outcome.FAILED, failed, changes), failed)


def _error(lease: HeldLease, kind: str, message: str) -> dict[str, str]:
    """An error as columns of the execution."""
    kept = clean(message)
    found = fingerprint(kind, lease.step, kept)
    return {"error_kind": kind, "error_message": kept, "error_fingerprint": found}


def _with_error(settled: Settlement, failed: Failed) -> Settlement:
    settled.kind, settled.message, settled.cost = failed.kind, failed.message, failed.cost
    return settled


def _after_loss(lease: HeldLease, lost: Lost, now: datetime) -> Settlement:
    message = f"worker {lease.worker} stopped renewing its lease"
    losses = _attempts(lease, Outcome.LOST)
    number = 1 + losses.count()
    if number < retry_policy.MAX_LOST or (
        number < retry_policy.MAX_LOST_IN_COMPANY and _in_company(losses)
    ):
        wait = retry_policy.apart(number, queue_knobs().lease_seconds)
        changes = _again(lease, now + timedelta(seconds=wait), "")
        return Settlement(lease, State.WAITING, Outcome.LOST, lost, changes, message=message)
    message = f"its worker was lost {number} times at step {lease.step}; last: {message}"
    changes = _final(now, **_error(lease, "poison", message))
    return Settlement(lease, State.FAILED, Outcome.LOST, lost, changes, None, "poison", message)


def _in_company(losses: QuerySet[Attempt]) -> bool:
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


_RULES: Mapping[type, Callable[[HeldLease, Any, datetime], Settlement]] = {
    Done: _after_done,
    Skipped: _after_skip,
    Snoozed: _after_snooze,
    Failed: _after_failure,
    Interrupted: _after_interruption,
    Lost: _after_loss,
}


def _attempts(lease: HeldLease, *outcomes: Outcome) -> QuerySet[Attempt]:
    """Attempts that ended so at this step since it was enqueued, or last retried by a person."""
    return Attempt.objects.filter(
        execution_id=lease.execution_id,
        phase=lease.phase,
        step=lease.step,
        outcome__in=outcomes,
        leased_at__gte=lease.tries_from,
    )


def _next(
    place: Place, lease: HeldLease, known: Mapping[str, Any], now: datetime
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


def _again(
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
