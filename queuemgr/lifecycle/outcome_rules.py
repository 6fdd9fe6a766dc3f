"""Maps a step's outcome to state changes, the attempt record and the budget charge. Pure: what it needs to
know of the past is read for all leases of a transaction at once (`attempts.history_of`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from queuemgr.base import meters
from queuemgr.base.config import queue_settings
from queuemgr.base.redaction import clean
from queuemgr.flows import retry_policy
from queuemgr.flows.flow import is_async_step
from queuemgr.flows.outcomes import Done, Failed, Interrupted, Lost, Result, Skipped, Snoozed
from queuemgr.lifecycle.attempts import History
from queuemgr.lifecycle.continuation import Continuation, FlowEnds, NextStep, RuleBroke
from queuemgr.lifecycle.error_fingerprint import fingerprint
from queuemgr.lifecycle.lease_locks import HeldLease
from queuemgr.lifecycle.leases import AttemptEnd
from queuemgr.models import Outcome, State
from queuemgr.scheduling.claims import RouteKind

BROKEN_RULE = "configuration"
"""The error kind of work that ended well at its step and whose flow could not say what follows."""


@dataclass(frozen=True, slots=True)
class OutcomeEffects:
    """What the end of a lease changes: the execution's state and columns, the route it waits on (None:
    none), its context if that changed, and how the attempt is recorded (with the requests to charge).

    `follows` says for the log what follows a loss.
    """

    lease: HeldLease
    result: Result
    to: State
    changes: Mapping[str, Any]
    attempt: AttemptEnd
    route: RouteKind | None = None
    context: dict[str, Any] | None = None
    follows: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """A lease that ended: with which result, where that leads, when, and the attempts before it."""

    lease: HeldLease
    result: Any
    continuation: Continuation | None
    history: History
    now: datetime

    @property
    def context(self) -> dict[str, Any] | None:
        """The execution's context with what the result adds; None if it adds nothing."""
        return {**self.lease.context, **self.result.context} if self.result.context else None


def apply_outcome(ended: Ended) -> OutcomeEffects:
    for kind, rule in _RULES.items():
        if isinstance(ended.result, kind):
            effects = rule(ended)
            return replace(effects, attempt=_charged(ended, effects.attempt))
    raise TypeError(f"no outcome of a step: {ended.result!r}")


def _on_done(ended: Ended) -> OutcomeEffects:
    attempt = AttemptEnd(Outcome.DONE, _cost(ended.lease, ended.result))
    if isinstance(ended.continuation, FlowEnds):
        changes = _final(ended.now, **_result(ended.result))
        return OutcomeEffects(ended.lease, ended.result, State.DONE, changes, attempt, context=ended.context)
    return _continue(ended, attempt, ended.now, "")


def _result(done: Done) -> dict[str, str]:
    """The column for what the last step returned, if it returned anything; JSON is text on both databases."""
    return {} if done.result is None else {"result": json.dumps(done.result)}


def _on_skipped(ended: Ended) -> OutcomeEffects:
    reason = ended.result.reason
    attempt = AttemptEnd(Outcome.SKIPPED, _cost(ended.lease, ended.result), "", reason)
    changes = _final(ended.now, wait_reason=clean(reason)[:200])
    return OutcomeEffects(ended.lease, ended.result, State.SKIPPED, changes, attempt)


def _on_snoozed(ended: Ended) -> OutcomeEffects:
    snoozed = ended.result
    attempt = AttemptEnd(Outcome.SNOOZED, ended.lease.reported_cost, "", snoozed.reason)
    when = ended.now + timedelta(seconds=snoozed.seconds)
    if ended.continuation is None:
        return _requeue(ended, attempt, when, snoozed.reason)
    return _continue(ended, attempt, when, snoozed.reason)


def _on_interrupted(ended: Ended) -> OutcomeEffects:
    attempt = AttemptEnd(Outcome.INTERRUPTED, _cost(ended.lease, ended.result), "", ended.result.reason)
    return _requeue(ended, attempt, ended.now, "")


def _on_failed(ended: Ended) -> OutcomeEffects:
    lease, failed = ended.lease, ended.result
    number = 1 + ended.history.failures(lease.lease_id)
    policy = failed.policy or ended.history.policy(failed.kind, lease.phase)
    delay = retry_policy.retry_delay(policy, number, retry_after=failed.retry_after)
    if delay is None:
        return _fail(ended, failed.kind, failed.message, traceback=failed.traceback)
    reason = f"attempt {number + 1} of {policy.max_attempts} after {failed.kind}"
    attempt = AttemptEnd(Outcome.RETRIED, _cost(lease, failed), failed.kind, failed.message, failed.traceback)
    error = _error(lease, failed.kind, failed.message)
    return _requeue(ended, attempt, _later(ended.now, delay), reason, retrying=True, **error)


def _on_lost(ended: Ended) -> OutcomeEffects:
    lease, lost = ended.lease, ended.result
    losses = ended.history.losses(lease.lease_id)
    number, most = 1 + losses.number, retry_policy.MAX_LOSSES
    if number >= most and losses.had_neighbours:
        most = retry_policy.MAX_LOSSES_WITH_NEIGHBOURS
    if number >= most:
        message = f"its worker was lost {number} times at step {lease.step}; last: {lost.cause}"
        failed = _fail(ended, "poison", message, outcome=Outcome.LOST)
        return replace(failed, follows="failed as poison")
    wait = retry_policy.loss_delay(number, queue_settings().lease_seconds)
    attempt = AttemptEnd(Outcome.LOST, _cost(lease, lost), "", lost.cause)
    waits = _requeue(ended, attempt, _later(ended.now, wait), "")
    cancelled = waits.to == State.CANCELLED
    return replace(waits, follows="cancelled" if cancelled else f"requeued, loss {number} of {most}")


_RULES: Mapping[type, Callable[[Ended], OutcomeEffects]] = {
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


def _uses(lease: HeldLease, result: Result) -> str:
    """What to charge of other meters: what the step reported, and what was reserved for it of those it said
    nothing of, unless it was broken off."""
    reported = meters.from_text(lease.spent_uses)
    if isinstance(result, Interrupted | Lost | Snoozed):
        return meters.as_text(reported)
    return meters.as_text({**meters.from_text(lease.uses), **reported})


def _charged(ended: Ended, attempt: AttemptEnd) -> AttemptEnd:
    uses = _uses(ended.lease, ended.result) if ended.lease.uses or ended.lease.spent_uses else ""
    return attempt._replace(uses=uses) if uses else attempt


def _later(now: datetime, seconds: float) -> datetime:
    return now + timedelta(seconds=seconds)


def _continue(ended: Ended, attempt: AttemptEnd, when: datetime, reason: str) -> OutcomeEffects:
    """Wait for the step the flow names; what was done stays done when it cannot name one."""
    lease, following = ended.lease, ended.continuation
    if isinstance(following, NextStep):
        kind = replace(following.kind, priority=lease.priority)
        changes = {
            "phase": following.phase, "step": following.step, "resumed": kind.resumed, "run_after": when,
            **_CLEARED, "wait_reason": clean(reason)[:200],
        }  # fmt: skip
        return _wait(ended, changes, attempt, kind, ended.context)
    if not isinstance(following, RuleBroke):
        raise TypeError(f"nothing says where {lease} continues")
    error = _error(lease, BROKEN_RULE, following.message)
    changes = _final(ended.now, **error, phase=following.phase, step=following.step)
    effects = OutcomeEffects(lease, ended.result, State.FAILED, changes, attempt, context=ended.context)
    return _unless_cancelled(effects, ended.now)


def _requeue(
    ended: Ended, attempt: AttemptEnd, when: datetime, reason: str, *, retrying: bool = False, **error: str
) -> OutcomeEffects:
    """Requeue the same step, ahead of executions that have not entered the phase."""
    lease = ended.lease
    kind = RouteKind(
        phase=lease.phase, priority=lease.priority, resumed=True, limit_keys=lease.limit_keys,
        cost=lease.cost, weight=lease.weight, resources=lease.resources, retrying=retrying, uses=lease.uses,
        is_async=is_async_step(lease.flow, lease.phase, lease.step),
    )  # fmt: skip
    waits: dict[str, Any] = {
        "resumed": True,
        "run_after": when,
        "wait_reason": clean(reason)[:200],
        "unknown_since": None,
    }
    changes = {**waits, **error}
    return _wait(ended, changes, attempt, kind)


def _wait(
    ended: Ended,
    changes: Mapping[str, Any],
    attempt: AttemptEnd,
    route: RouteKind,
    context: dict[str, Any] | None = None,
) -> OutcomeEffects:
    effects = OutcomeEffects(ended.lease, ended.result, State.WAITING, changes, attempt, route, context)
    return _unless_cancelled(effects, ended.now)


def _unless_cancelled(effects: OutcomeEffects, now: datetime) -> OutcomeEffects:
    """The effects, unless a person asked meanwhile to cancel the execution: then it is cancelled."""
    if not (by := effects.lease.cancel_requested_by):
        return effects
    changes = _final(now, wait_reason=f"cancelled by {by}")
    attempt = effects.attempt._replace(outcome=Outcome.CANCELLED)
    return replace(effects, to=State.CANCELLED, changes=changes, attempt=attempt, route=None)


def _fail(
    ended: Ended, kind: str, message: str, *, outcome: Outcome = Outcome.FAILED, traceback: str = ""
) -> OutcomeEffects:
    changes = _final(ended.now, **_error(ended.lease, kind, message))
    attempt = AttemptEnd(outcome, _cost(ended.lease, ended.result), kind, message, traceback)
    return OutcomeEffects(ended.lease, ended.result, State.FAILED, changes, attempt)


def _error(lease: HeldLease, kind: str, message: str) -> dict[str, str]:
    cleaned = clean(message)
    return {
        "error_kind": kind,
        "error_message": cleaned,
        "error_fingerprint": fingerprint(kind, lease.step, cleaned),
    }


_CLEARED: Mapping[str, Any] = {
    "error_kind": "", "error_message": "", "error_fingerprint": "", "wait_reason": "", "unknown_since": None,
}  # fmt: skip


def _final(now: datetime, **changes: Any) -> dict[str, Any]:
    return {**_CLEARED, **changes, "finished_at": now}
