"""What a person does with executions, one or a million; each change has an entry in the audit log.

Every function takes the executions, its arguments, and `by`: who acts, through what, and why. It acts on
some hundred rows at a time under the scheduler lock, on rows read under it (see `_in_chunks`), leaves alone
what has changed meanwhile, and returns how many it changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django.db import transaction

from queuemgr.base import scheduler_lock
from queuemgr.base.after_commit import after_commit
from queuemgr.base.errors import BadInput, RuleFailed, SluiceError, UnknownFlow, UnknownStep
from queuemgr.base.redaction import masked
from queuemgr.base.scheduler_lock import SchedulerLock
from queuemgr.flows.flow import PRIORITY_NAMES, get_flow
from queuemgr.flows.payload_validation import validate
from queuemgr.lifecycle import batch_window, leases, states
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import check_horizon, check_rank
from queuemgr.models import NOT_DONE, UNSUCCESSFUL, Execution, Route, State
from queuemgr.operations.controls import ROWS_AT_A_TIME, Actor
from queuemgr.scheduling import parking, routes
from queuemgr.scheduling.claims import RouteKind
from queuemgr.scheduling.step_rules import first_step, step_from

P = ParamSpec("P")
Chunk = list[Execution]

BEFORE_IT_RUNS = (State.WAITING, State.LEASED)
MISSING = object()

EDIT_PAYLOAD = "edit payload"
"""The action of an audit entry with parts of a payload: for those who may see payloads."""


def _in_chunks(
    act: Callable[Concatenate[SchedulerLock, Chunk, P], int],
) -> Callable[Concatenate[Iterable[Execution], P], int]:
    """Have this act on some hundred rows at a time, under the scheduler lock and on rows read under it."""

    @wraps(act)
    def act_on(executions: Iterable[Execution], /, *args: P.args, **kwargs: P.kwargs) -> int:
        ids = [execution.pk for execution in executions]
        changed = 0
        for start in range(0, len(ids), ROWS_AT_A_TIME):
            some = ids[start : start + ROWS_AT_A_TIME]
            with transaction.atomic():
                leases.lock_of(some)  # so that what is read next stays true
                lock = scheduler_lock.acquire()
                chunk = list(Execution.objects.filter(pk__in=some).order_by("pk"))
                changed += act(lock, chunk, *args, **kwargs)
        after_commit(dispatch)
        return changed

    return act_on


@_in_chunks
def retry(lock: SchedulerLock, chunk: Chunk, by: Actor) -> int:
    """Requeue failed, cancelled or skipped executions at the step they stopped at.

    Others, and those whose flow or step is gone, are left alone. Done work is never done twice.
    """
    return _retry(lock, chunk, by)


@_in_chunks
def retry_from_start(lock: SchedulerLock, chunk: Chunk, by: Actor) -> int:
    """Requeue failed, cancelled or skipped executions at the first step their payload needs.

    Their context is emptied; attempts and stored results stay until each step replaces its own.
    """
    return _retry(lock, chunk, by, from_start=True)


def retry_with_payload(
    execution: Execution, payload: Mapping[str, Any], by: Actor, *, from_start: bool = False
) -> int:
    """Retry one execution with another payload, from its step or from the start.

    Raises `BadInput` for a payload that cannot be stored or that its flow cannot work with, and
    `NeverFits` for one no limit could admit. Returns 0 when it was not failed, cancelled or skipped.
    """
    valid = validate(payload)

    @_in_chunks
    def act(lock: SchedulerLock, chunk: Chunk) -> int:
        changed = [e for e in chunk if e.state in UNSUCCESSFUL]
        for e in changed:
            _set_payload(e, valid, by, from_start=from_start)
        return _retry(lock, changed, by, from_start=from_start)

    return act([execution])


def _retry(lock: SchedulerLock, chunk: Chunk, by: Actor, *, from_start: bool = False) -> int:
    ended = [e for e in chunk if e.state in UNSUCCESSFUL]
    before = {e.pk: _state(e, with_step=from_start) for e in ended}
    moved = [e for e in ended if (_move_to_start if from_start else _move_to_needed)(e)]
    action = "retry from start" if from_start else "retry"
    columns: dict[str, Any] = {"run_after": lock.now, "attempts_counted_since": lock.now, "finished_at": None}
    by_route = _by_route(moved, lambda e: (e.priority, not from_start, False))
    for route_id, some in by_route.items():
        by.record_each(
            action,
            some,
            lambda e: before[e.pk],
            lambda e: {**_state(e, with_step=from_start), "state": State.WAITING.value},
        )
        columns |= {"wait_reason": "", "resumed": not from_start, "route_id": route_id}
        by_step: dict[tuple[str, str], list[int]] = defaultdict(list)
        for e in some:
            by_step[e.phase, e.step].append(e.pk)
        for (phase, step), ids in by_step.items():
            emptied: dict[str, Any] = {"context": {}} if from_start else {}
            states.move(ids, State.WAITING, **columns, phase=phase, step=step, **emptied)
    batch_window.defer_beyond_window(lock, [e.pk for e in ended if e.batch_id])
    parking.unpark(lock, by_route)
    return sum(map(len, by_route.values()))


def _state(execution: Execution, *, with_step: bool = False) -> dict[str, str]:
    step = {"step": f"{execution.phase}/{execution.step}"} if with_step else {}
    return {"state": execution.state, **step}


def _move_to_start(execution: Execution) -> bool:
    """Set the first step and an empty context, without saving; False if its flow has none for it."""
    try:
        start = first_step(execution.flow, execution.payload)
    except (UnknownFlow, RuleFailed):
        return False
    execution.phase, execution.step, execution.context = start.phase.name, start.step.name, {}
    return True


def _move_to_needed(execution: Execution) -> bool:
    """Set the first step that is needed from where it stopped, without saving; False if there is none.

    Mostly that is the step it failed at. It may have failed between two steps, when a rule of the next
    could not be evaluated.
    """
    try:
        ref = step_from(execution.flow, execution.phase, execution.step, execution.inputs)
    except (UnknownFlow, UnknownStep, RuleFailed):
        return False
    execution.phase, execution.step = ref.phase.name, ref.step.name
    return True


def _set_payload(execution: Execution, payload: dict[str, Any], by: Actor, *, from_start: bool) -> None:
    before, execution.payload = execution.payload, payload
    _check_payload(execution, from_start=from_start)
    states.set_payload(execution.pk, payload)
    edited = {name for name in {*before, *payload} if before.get(name, MISSING) != payload.get(name, MISSING)}
    if edited:
        was, is_now = (
            {"payload": masked({name: values[name] for name in sorted(edited & set(values))})}
            for values in (before, payload)
        )
        by.record(EDIT_PAYLOAD, str(execution), was, is_now)


def _check_payload(execution: Execution, *, from_start: bool) -> None:
    """Compute the route by the flow's rules, so that an odd payload cannot stop a worker later.

    Raises `BadInput`, `NeverFits` or whatever `SluiceError` the flow raises.
    """
    try:
        flow, inputs = execution.flow, execution.payload if from_start else execution.inputs
        at = (
            first_step(flow, inputs)
            if from_start
            else step_from(flow, execution.phase, execution.step, inputs)
        )
        kind = routes.kind_of(at, execution.priority, inputs, resumed=not from_start)
    except RuleFailed as error:
        if isinstance(error.__cause__, SluiceError):
            raise error.__cause__ from None
        problem = f"flow {flow} cannot work with this payload ({error})"
        raise BadInput(f"{problem}: correct the value it names") from error
    routes.check_fits(kind)


@_in_chunks
def cancel(lock: SchedulerLock, chunk: Chunk, by: Actor) -> int:
    """Cancel what waits at once; request the cancellation of what runs, which its worker sees in seconds."""
    leases.revoke_unstarted_of(chunk)
    running = leases.request_cancellation(chunk, by.actor or by.source)
    requested = [e for e in chunk if e.pk in running]
    waiting = [e for e in chunk if e.state in BEFORE_IT_RUNS and e not in requested]
    by.record_each("cancel", requested, _state, lambda execution: {"state": "cancellation requested"})
    _end(waiting, State.CANCELLED, "cancel", lock.now, by)
    return len(requested) + len(waiting)


@_in_chunks
def skip(lock: SchedulerLock, chunk: Chunk, by: Actor) -> int:
    """Skip for good what waits or has failed; what runs, is done or was cancelled is left alone."""
    leases.revoke_unstarted_of(chunk)
    skipped = [e for e in chunk if e.state in (*BEFORE_IT_RUNS, State.FAILED)]
    _end(skipped, State.SKIPPED, "skip", lock.now, by)
    return len(skipped)


def _end(some: Chunk, to: State, action: str, now: datetime, by: Actor) -> None:
    """Move these, none of which has a lease, to a final state, and store who did it."""
    by.record_each(action, some, _state, lambda execution: {"state": to.value})
    ids = [execution.pk for execution in some]
    states.move(ids, to, finished_at=now, route_id=None, wait_reason=_reason(to.value, by))


def _reason(what: str, by: Actor) -> str:
    """As `cancelled by ann: wrong file`."""
    return (f"{what} by {by.actor}" + (f": {by.reason}" if by.reason else ""))[:200]


def set_priority(executions: Iterable[Execution], priority: int, by: Actor) -> int:
    """Change the priority; running work keeps its slot and has the new priority from its next step on, what
    has ended when it is retried. Done work is left alone.

    Raises `BadInput` for a rank that is no priority.
    """
    check_rank(priority)
    return _set_priority(executions, priority, by)


@_in_chunks
def _set_priority(lock: SchedulerLock, chunk: Chunk, priority: int, by: Actor) -> int:
    others = [e for e in chunk if e.priority != priority and e.state in NOT_DONE]
    leases.revoke_unstarted_of(others)
    by.record_each(
        "set priority",
        others,
        lambda execution: {"priority": PRIORITY_NAMES[execution.priority]},
        lambda execution: {"priority": PRIORITY_NAMES[priority]},
    )
    waiting = [e for e in others if e.state in BEFORE_IT_RUNS]
    retrying = Route.objects.filter(pk__in=[e.route_id for e in waiting], retrying=True)
    retries = set(retrying.values_list("pk", flat=True))
    by_route = _by_route(waiting, lambda e: (priority, e.resumed, e.route_id in retries))
    for route_id, some in by_route.items():
        states.set_route([e.pk for e in some], route_id)
    states.set_priority([e.pk for e in others], priority)
    parking.unpark(lock, by_route)
    return len(others)


def set_run_after(executions: Iterable[Execution], when: datetime, by: Actor) -> int:
    """Have what waits start no earlier than `when`; a moment that has passed: as soon as it may.

    What runs, or waits for the window of its batch, is left alone. Raises `BadInput` for a moment
    without a time zone or years ahead.
    """
    if when.tzinfo is None:
        raise BadInput(f"the time {when} has no time zone: give one, as {when}+00:00")
    check_horizon("run_after", when)
    return _set_run_after(executions, when, by)


@_in_chunks
def _set_run_after(lock: SchedulerLock, chunk: Chunk, when: datetime, by: Actor) -> int:
    now, moment = lock.now, max(when, lock.now)
    waiting = [e for e in chunk if e.state in BEFORE_IT_RUNS]
    moved = [e for e in waiting if e.run_after and max(e.run_after, now) != moment]
    if not moved:
        return 0
    leases.revoke_unstarted_of(moved)
    by.record_each("reschedule", moved, lambda e: _run_after(e.run_after), lambda e: _run_after(moment))
    reason = _reason("rescheduled", by) if moment > now else ""
    states.reschedule([e.pk for e in moved], moment, reason)
    parking.fall_due(lock, {e.route_id for e in moved if e.route_id}, moment)
    return len(moved)


def _run_after(moment: datetime | None) -> dict[str, str]:
    return {"run_after": moment.isoformat(timespec="seconds") if moment else ""}


def _by_route(
    executions: Iterable[Execution], ranked: Callable[[Execution], tuple[int, bool, bool]]
) -> dict[int, list[Execution]]:
    """The executions by the route they would wait on, without those whose flow or step is gone or whose
    rules fail."""
    by_kind: dict[RouteKind, list[Execution]] = defaultdict(list)
    for execution in executions:
        priority, resumed, retrying = ranked(execution)
        try:
            step_ref = get_flow(execution.flow).at(execution.phase, execution.step)
            kind = routes.kind_of(step_ref, priority, execution.inputs, resumed=resumed)
        except (UnknownFlow, UnknownStep, RuleFailed):
            continue
        by_kind[replace(kind, retrying=retrying)].append(execution)
    ids = routes.ids_of(by_kind)
    return {ids[kind]: some for kind, some in by_kind.items()}
