"""What a person may do with executions, one or a million: each recorded as a Change.

Every verb takes the executions, what it needs to know, and `by`: who acts, through what, and why. It
acts on some hundred at a time under the scheduler lock, on rows read under it, leaves alone what has
changed meanwhile, and returns how many it changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction

from queuemgr.base.errors import BadInput, ConfigurationError, SluiceError, UnknownFlow, UnknownStep
from queuemgr.base.redaction import masked
from queuemgr.base.scheduler_lock import SchedulerLock, hold_scheduler_lock
from queuemgr.flows.flow import PRIORITY_NAMES, StepRef, get_flow
from queuemgr.flows.payload_validation import validate
from queuemgr.lifecycle import batch_window, revoke, states
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import check_horizon, check_rank
from queuemgr.models import UNSUCCESSFUL, Execution, Lease, Route, State
from queuemgr.operations.controls import ROWS_AT_A_TIME, Actor
from queuemgr.scheduling import routes, wakeups
from queuemgr.scheduling.claims import RouteKind

Chunk = list[Execution]

EDIT_PAYLOAD = "edit payload"
"""The change that tells what of a payload was edited: for those who may see payloads."""


def retry(executions: Iterable[Execution], by: Actor) -> int:
    """Let failed, cancelled or skipped executions go on from the step they stopped at.

    Others, and those whose flow or step is gone, are left alone; returns how many wait again.
    """
    return _in_chunks(executions, lambda lock, chunk: _retry(lock, chunk, by))


def retry_from_start(executions: Iterable[Execution], by: Actor) -> int:
    """Let failed, cancelled or skipped executions begin anew, at the first step their payload needs.

    What their steps learnt (the context) is forgotten; attempts and what is stored stay, and each
    step stores its own again when it comes to its end. Done work is never done twice.
    """
    return _in_chunks(executions, lambda lock, chunk: _retry_from_start(lock, chunk, by))


def retry_with_payload(
    execution: Execution, payload: Mapping[str, Any], by: Actor, *, from_start: bool = False
) -> int:
    """Retry one execution with another payload, from its step or from the start.

    Raises `BadInput` for a payload that cannot be stored or that its flow cannot work with, and
    `NeverFits` for one no limit could admit. Returns 0 when it was not failed, cancelled or skipped.
    """
    given = validate(payload)
    again = _retry_from_start if from_start else _retry

    def act(lock: SchedulerLock, chunk: Chunk) -> int:
        changed = [e for e in chunk if e.state in UNSUCCESSFUL]
        for e in changed:
            _give_payload(e, given, by, from_start=from_start)
        return again(lock, changed, by)

    return _in_chunks([execution], act)


def cancel(executions: Iterable[Execution], by: Actor) -> int:
    """Cancel what waits at once; ask what runs to stop, which its worker hears within seconds."""
    return _in_chunks(executions, lambda lock, chunk: _cancel(chunk, lock.now, by))


def skip(executions: Iterable[Execution], by: Actor) -> int:
    """Leave out for good what waits, and what failed and nobody wants any more.

    What runs, is done or was cancelled is left alone.
    """
    return _in_chunks(executions, lambda lock, chunk: _skip(chunk, lock.now, by))


def set_priority(executions: Iterable[Execution], priority: int, by: Actor) -> int:
    """Raise or lower the priority; work under way keeps its slot and goes on at the new one."""
    check_rank(priority)
    return _in_chunks(executions, lambda lock, chunk: _set_priority(lock, chunk, priority, by))


def set_run_after(executions: Iterable[Execution], when: datetime, by: Actor) -> int:
    """Have what waits start no earlier than `when`; a moment that has passed: as soon as it may.

    What runs, or waits for the window of its batch, is left alone. Raises `BadInput` for a moment
    without a time zone or years ahead.
    """
    if when.tzinfo is None:
        raise BadInput(f"the time {when} has no time zone: give one, as {when}+00:00")
    check_horizon("run_after", when)
    return _in_chunks(executions, lambda lock, chunk: _set_run_after(lock, chunk, when, by))


def _in_chunks(executions: Iterable[Execution], act: Callable[[SchedulerLock, Chunk], int]) -> int:
    """Act on some hundred at a time, each time under the scheduler lock and on rows read under it."""
    ids = [execution.pk for execution in executions]
    changed = 0
    for start in range(0, len(ids), ROWS_AT_A_TIME):
        with hold_scheduler_lock() as lock:
            _lock_leases(ids[start : start + ROWS_AT_A_TIME])
            some = Execution.objects.filter(pk__in=ids[start : start + ROWS_AT_A_TIME])
            changed += act(lock, list(some.order_by("pk")))
    transaction.on_commit(dispatch)
    return changed


def _lock_leases(execution_ids: Sequence[int]) -> None:
    """Wait for beginnings and endings under way, which need not hold the scheduler lock; those that
    come after us wait for us. What is read next stays true."""
    held = Lease.objects.filter(execution_id__in=execution_ids).order_by("pk")
    list(held.select_for_update().values_list("pk"))


def _retry(lock: SchedulerLock, chunk: Chunk, by: Actor) -> int:
    ended = [e for e in chunk if e.state in UNSUCCESSFUL]
    by_route = _by_route(ended, lambda execution: (execution.priority, True, False))
    for route_id, some in by_route.items():
        by.record_each("retry", some, _state, lambda execution: {"state": State.WAITING.value})
        changes = {**_again(lock.now), "resumed": True, "route_id": route_id}
        states.move([e.pk for e in some], State.WAITING, **changes)
    batch_window.defer_beyond_window(lock, [e.pk for e in ended if e.batch_id])
    wakeups.unpark(lock, by_route)
    return sum(map(len, by_route.values()))


def _again(now: datetime) -> dict[str, Any]:
    return {"run_after": now, "attempts_counted_since": now, "finished_at": None, "wait_reason": ""}


def _retry_from_start(lock: SchedulerLock, chunk: Chunk, by: Actor) -> int:
    ended = [e for e in chunk if e.state in UNSUCCESSFUL]
    stood = {e.pk: f"{e.phase}/{e.step}" for e in ended}
    by_route = _by_route(filter(_put_at_start, ended), lambda e: (e.priority, False, False))
    for route_id, some in by_route.items():
        by.record_each(
            "retry from start",
            some,
            lambda e: {**_state(e), "step": stood[e.pk]},
            lambda e: {"state": State.WAITING.value, "step": f"{e.phase}/{e.step}"},
        )
        for (phase, step), alike in _by_place(some).items():
            changes = {"phase": phase, "step": step, "context": {}, "resumed": False}
            states.move(alike, State.WAITING, **_again(lock.now), **changes, route_id=route_id)
    batch_window.defer_beyond_window(lock, [e.pk for e in ended if e.batch_id])
    wakeups.unpark(lock, by_route)
    return sum(map(len, by_route.values()))


def _put_at_start(execution: Execution) -> bool:
    """Have the row in hand stand at its first step with nothing learnt; False where it has none."""
    try:
        place = get_flow(execution.flow).first(execution.payload)
    except (UnknownFlow, ConfigurationError):
        return False
    execution.phase, execution.step, execution.context = place.phase.name, place.step.name, {}
    return True


def _by_place(executions: Iterable[Execution]) -> dict[tuple[str, str], list[int]]:
    by_place: dict[tuple[str, str], list[int]] = defaultdict(list)
    for execution in executions:
        by_place[execution.phase, execution.step].append(execution.pk)
    return by_place


def _give_payload(
    execution: Execution, payload: dict[str, Any], by: Actor, *, from_start: bool
) -> None:
    before, execution.payload = execution.payload, payload
    _check_it_works(execution, from_start=from_start)
    Execution.objects.filter(pk=execution.pk).update(payload=payload)
    edited = {name for name in {*before, *payload} if _differs(before, payload, name)}
    if edited:
        was, is_now = (
            {"payload": masked({name: given[name] for name in sorted(edited & set(given))})}
            for given in (before, payload)
        )
        by.record(EDIT_PAYLOAD, str(execution), was, is_now)


def _differs(before: Mapping[str, Any], after: Mapping[str, Any], name: str) -> bool:
    return (name in before, before.get(name)) != (name in after, after.get(name))


def _check_it_works(execution: Execution, *, from_start: bool) -> None:
    """Ask the flow's rules for the route: an odd payload must not stop a worker later.

    Raises `BadInput`, `NeverFits` or what the flow raises of ours.
    """
    try:
        flow = get_flow(execution.flow)
        given = execution.payload if from_start else execution.inputs
        place: StepRef = (
            flow.first(given) if from_start else flow.at(execution.phase, execution.step)
        )
        kind = routes.kind_of(place, execution.priority, given, resumed=not from_start)
    except SluiceError:
        raise
    except Exception as error:
        # A flow's rules are its own, and may raise whatever an unforeseen value leads to.
        raise BadInput(
            f"flow {execution.flow} cannot work with this payload "
            f"({type(error).__name__}: {error}): mend the value it names"
        ) from error
    routes.check_fits(kind)


def _cancel(chunk: Chunk, now: datetime, by: Actor) -> int:
    _give_back_unstarted(chunk)
    leases = Lease.objects.filter(execution__in=chunk, cancel_requested_by="")
    running = set(leases.values_list("execution_id", flat=True))
    leases.update(cancel_requested_by=by.actor or by.source)
    asked = [e for e in chunk if e.pk in running]
    waiting = [e for e in chunk if e.state in (State.WAITING, State.LEASED) and e not in asked]
    by.record_each("cancel", asked, _state, lambda execution: {"state": "asked to stop"})
    _end(waiting, State.CANCELLED, "cancel", now, by)
    return len(asked) + len(waiting)


def _skip(chunk: Chunk, now: datetime, by: Actor) -> int:
    _give_back_unstarted(chunk)
    may = (State.WAITING, State.LEASED, State.FAILED)
    unwanted = [e for e in chunk if e.state in may]
    _end(unwanted, State.SKIPPED, "skip", now, by)
    return len(unwanted)


def _end(some: Chunk, to: State, action: str, now: datetime, by: Actor) -> None:
    """Move these, none of which holds a lease, to a final state, and say who did."""
    by.record_each(action, some, _state, lambda execution: {"state": to.value})
    said = f"{to.value} by {by.actor}" + (f": {by.reason}" if by.reason else "")
    states.move(
        [execution.pk for execution in some],
        to,
        finished_at=now,
        route_id=None,
        wait_reason=said[:200],
    )


def _set_priority(lock: SchedulerLock, chunk: Chunk, priority: int, by: Actor) -> int:
    others = [execution for execution in chunk if execution.priority != priority]
    _give_back_unstarted(others)
    by.record_each(
        "set priority",
        others,
        lambda execution: {"priority": PRIORITY_NAMES[execution.priority]},
        lambda execution: {"priority": PRIORITY_NAMES[priority]},
    )
    waiting = [e for e in others if e.state in (State.WAITING, State.LEASED)]
    retries = set(
        Route.objects.filter(pk__in=[e.route_id for e in waiting], retrying=True).values_list(
            "pk", flat=True
        )
    )
    by_route = _by_route(waiting, lambda e: (priority, e.resumed, e.route_id in retries))
    for route_id, some in by_route.items():
        Execution.objects.filter(pk__in=[e.pk for e in some]).update(route_id=route_id)
    Execution.objects.filter(pk__in=[e.pk for e in others]).update(priority=priority)
    wakeups.unpark(lock, by_route)
    return len(others)


def _set_run_after(lock: SchedulerLock, chunk: Chunk, when: datetime, by: Actor) -> int:
    now = lock.now
    moment = max(when, now)
    waiting = [e for e in chunk if e.state in (State.WAITING, State.LEASED)]
    waiting = [e for e in waiting if e.run_after is not None]
    moved = [e for e in waiting if e.run_after != moment and not _is_due(e, when, now)]
    if not moved:
        return 0
    _give_back_unstarted(moved)
    by.record_each("set run after", moved, partial(_moment, "run_after"), lambda e: _said(moment))
    put_off = f"put off by {by.actor}" + (f": {by.reason}" if by.reason else "")
    Execution.objects.filter(pk__in=[e.pk for e in moved]).update(
        run_after=moment, wait_reason=put_off[:200] if moment > now else ""
    )
    _bring_heads_forward(lock, {e.route_id for e in moved if e.route_id}, moment)
    return len(moved)


def _is_due(execution: Execution, when: datetime, now: datetime) -> bool:
    """Is it due already, and told to be due now? It keeps its turn."""
    return when <= now and execution.run_after is not None and execution.run_after <= now


def _moment(column: str, execution: Execution) -> dict[str, str]:
    return _said(getattr(execution, column))


def _said(moment: datetime) -> dict[str, str]:
    return {"run_after": moment.isoformat(timespec="seconds")}


def _bring_heads_forward(lock: SchedulerLock, route_ids: set[int], moment: datetime) -> None:
    """A route's `head_at` is never later than its head falls due, or ageing would miss it."""
    Route.objects.filter(pk__in=route_ids, head_at__gt=moment).update(head_at=moment)
    wakeups.unpark(lock, route_ids)


def _state(execution: Execution) -> dict[str, str]:
    return {"state": execution.state}


def _give_back_unstarted(chunk: Chunk) -> None:
    unstarted = Lease.objects.unstarted().filter(execution__in=chunk)
    revoke.revoke_unstarted(list(unstarted.values_list("pk", flat=True)))


def _by_route(
    executions: Iterable[Execution], ranked: Callable[[Execution], tuple[int, bool, bool]]
) -> dict[int, list[Execution]]:
    """The executions by the route they would wait on; without those whose flow or step is gone."""
    by_kind: dict[RouteKind, list[Execution]] = defaultdict(list)
    for execution in executions:
        priority, resumed, retrying = ranked(execution)
        try:
            place = get_flow(execution.flow).at(execution.phase, execution.step)
        except (UnknownFlow, UnknownStep):
            continue
        kind = routes.kind_of(place, priority, execution.inputs, resumed=resumed)
        by_kind[replace(kind, retrying=retrying)].append(execution)
    # A new route is not remembered before the transaction commits: it is asked for once, not once a row.
    return {routes.route_id(kind): some for kind, some in by_kind.items()}
