"""What a person does with executions, one or a million; each change has an entry in the audit log.

Every function takes the executions, its arguments, and `by`: who acts, through what, and why. It acts on
some hundred rows at a time under the scheduler lock, on rows read under it (see `_in_chunks`), leaves alone
what has changed meanwhile, and returns how many it changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec

from queuemgr import signals
from queuemgr.base import scheduler_lock, transaction
from queuemgr.base.after_commit import after_commit
from queuemgr.base.errors import BadInput
from queuemgr.base.redaction import masked
from queuemgr.base.scheduler_lock import SchedulerLock
from queuemgr.flows.flow import PRIORITY_NAMES
from queuemgr.lifecycle import (
    batch_window,
    canvas_calls,
    execution_signals,
    lease_locks,
    leases,
    states,
    webhook_events,
)
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import check_horizon, check_rank
from queuemgr.models import NOT_DONE, UNSUCCESSFUL, Execution, State, WebhookEvent
from queuemgr.operations import placing, remote_work
from queuemgr.operations.controls import ROWS_AT_A_TIME, Actor
from queuemgr.operations.placing import BEFORE_IT_RUNS, Answers, Place, Question
from queuemgr.schedules import new_runs
from queuemgr.scheduling import parking, wakeups

P = ParamSpec("P")
Chunk = list[Execution]
Places = Mapping[int, Place]
"""By the id of the execution; one whose flow or step is gone or whose rules fail has none."""

MISSING = object()

CANCEL, PUT_BACK = "cancel", "put back"

EDIT_PAYLOAD = "edit payload"
"""The action of an audit entry with parts of a payload: for those who may see payloads."""


def _in_chunks(
    act: Callable[Concatenate[SchedulerLock, Chunk, P], int],
) -> Callable[Concatenate[Iterable[Execution], P], int]:
    """Have this act on some hundred rows at a time, under the scheduler lock and on rows read under it."""

    @wraps(act)
    def act_on(executions: Iterable[Execution], /, *args: P.args, **kwargs: P.kwargs) -> int:
        return _act_on(executions, lambda lock, chunk, places: act(lock, chunk, *args, **kwargs))

    return act_on


def _act_on(
    executions: Iterable[Execution],
    act: Callable[[SchedulerLock, Chunk, Places], int],
    question: Question | None = None,
    known: Answers | None = None,
) -> int:
    """Act on some hundred rows at a time, each with the place that `question` says it is to have; `known` are
    its answers where they were asked for before."""
    ids = [execution.pk for execution in executions]
    starts = range(0, len(ids), ROWS_AT_A_TIME)
    changed = sum(_act_on_some(ids[at : at + ROWS_AT_A_TIME], act, question, known) for at in starts)
    after_commit(dispatch)
    return changed


def _act_on_some(
    ids: list[int],
    act: Callable[[SchedulerLock, Chunk, Places], int],
    question: Question | None,
    known: Answers | None,
) -> int:
    """Try again with those that changed, or began to store, between the first look and the locks; not in the
    transaction of a caller, which holds the scheduler lock by then: under it nobody is waited for."""
    changed, left = 0, ids
    for turn in range(TRIES):
        is_held = scheduler_lock.is_held()
        if not left or (is_held and turn):
            break
        answers = placing.ask(question, left) if question and known is None else known or {}
        with transaction.atomic():
            if not is_held:
                lease_locks.lock_of(left)  # so that what is read next stays true
            lock = scheduler_lock.acquire()
            ready = _ready(left, question, answers)
            places = {e.pk: answers[e.pk].place for e in ready if e.pk in answers}
            changed += act(lock, ready, {pk: place for pk, place in places.items() if place})
        done = {execution.pk for execution in ready}
        left = [pk for pk in left if pk not in done]
    return changed


TRIES = 3
"""How often executions that change while they are looked at are looked at again; then they are left alone."""


def _ready(ids: Collection[int], question: Question | None, answers: Answers) -> Chunk:
    """Those of these that nobody is ending right now (one granted while the scheduler lock was waited for may
    have got so far), and of which the answers still hold."""
    busy = lease_locks.lock_free_of(ids)
    rows = Execution.objects.filter(pk__in=set(ids) - busy).order_by("pk")
    return [e for e in rows if question is None or placing.is_answered(question, answers, e)]


def retry(executions: Iterable[Execution], by: Actor, known: Answers | None = None) -> int:
    """Requeue failed, cancelled or skipped executions at the step they stopped at.

    Others, and those whose flow or step is gone, are left alone. Done work is never done twice. `known`: the
    answers to `placing.to_retry`, for a caller that holds the scheduler lock.
    """
    return _act_on(executions, partial(_retry, by=by), placing.to_retry(from_start=False), known)


def retry_from_start(executions: Iterable[Execution], by: Actor, known: Answers | None = None) -> int:
    """Requeue failed, cancelled or skipped executions at the first step their payload needs.

    Their context is emptied; attempts and stored results stay until each step replaces its own.
    """
    act = partial(_retry, by=by, from_start=True)
    return _act_on(executions, act, placing.to_retry(from_start=True), known)


def retry_with_payload(
    execution: Execution, payload: Mapping[str, Any], by: Actor, *, from_start: bool = False
) -> int:
    """Retry one execution with another payload, from its step or from the start.

    Raises `BadInput` for a payload that cannot be stored or that its flow cannot work with, and
    `NeverFits` for one no limit could admit. Returns 0 when it was not failed, cancelled or skipped.
    """
    valid = remote_work.payload_by(by, execution.flow, payload, execution.payload)

    def act(lock: SchedulerLock, chunk: Chunk, places: Places) -> int:
        for e in chunk:
            if e.state in UNSUCCESSFUL:
                _set_payload(e, valid, by)
        return _retry(lock, chunk, places, by, from_start=from_start)

    where = partial(placing.with_payload, payload=valid, from_start=from_start)
    return _act_on([execution], act, Question(UNSUCCESSFUL, where))


def _retry(lock: SchedulerLock, chunk: Chunk, places: Places, by: Actor, *, from_start: bool = False) -> int:
    ended = [e for e in chunk if e.state in UNSUCCESSFUL]
    before = {e.pk: _state(e, with_step=from_start) for e in ended}
    for e in ended:
        if e.pk in places:
            e.phase, e.step = places[e.pk].phase, places[e.pk].step
    action = "retry from start" if from_start else "retry"
    columns: dict[str, Any] = {"run_after": lock.now, "attempts_counted_since": lock.now, "finished_at": None}
    by_route = _by_route(ended, places)
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
        _have_begun_anew(lock, some)
    parking.unpark(lock, by_route)
    return sum(map(len, by_route.values()))


def _state(execution: Execution, *, with_step: bool = False) -> dict[str, str]:
    step = {"step": f"{execution.phase}/{execution.step}"} if with_step else {}
    return {"state": execution.state, **step}


def _set_payload(execution: Execution, payload: dict[str, Any], by: Actor) -> None:
    before, execution.payload = execution.payload, payload
    states.set_payload(execution.pk, payload)
    edited = {name for name in {*before, *payload} if before.get(name, MISSING) != payload.get(name, MISSING)}
    if edited:
        was, is_now = (
            {"payload": masked({name: values[name] for name in sorted(edited & set(values))})}
            for values in (before, payload)
        )
        by.record(EDIT_PAYLOAD, str(execution), was, is_now)


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


def put_back(executions: Iterable[Execution], by: Actor, known: Answers | None = None) -> int:
    """Have cancelled executions wait again where they waited, as if they had not been cancelled: with the
    time they were to start at, and the attempts they have had. Those whose flow or step is gone are left
    alone. `known`: the answers to `placing.to_put_back`, for a caller that holds the scheduler lock."""
    return _act_on(executions, partial(_put_back, by=by), placing.to_put_back(), known)


def _put_back(lock: SchedulerLock, chunk: Chunk, places: Places, by: Actor) -> int:
    cancelled = [e for e in chunk if e.state == State.CANCELLED]
    by_route = _by_route(cancelled, places)
    for route_id, some in by_route.items():
        by.record_each(PUT_BACK, some, _state, lambda e: {"state": State.WAITING.value})
        ids = [e.pk for e in some]
        states.move(ids, State.WAITING, finished_at=None, wait_reason="", route_id=route_id)
        _have_begun_anew(lock, some)
    parking.unpark(lock, by_route)
    return sum(map(len, by_route.values()))


def _have_begun_anew(lock: SchedulerLock, some: Chunk) -> None:
    """What else is to know that these have not ended after all."""
    new_runs.note_retried(some)
    canvas_calls.retried(some)
    batch_window.defer_beyond_window(lock, [e.pk for e in some if e.batch_id])
    wakeups.post(batches={e.batch_id for e in some if e.batch_id})


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
    if to == State.CANCELLED:
        execution_signals.moved(signals.execution_cancelled, ids)
    event = WebhookEvent.CANCELLED if to == State.CANCELLED else WebhookEvent.FINISHED
    webhook_events.moved(event, ids, now)


def _reason(what: str, by: Actor) -> str:
    """As `cancelled by ann: wrong file`."""
    return (f"{what} by {by.actor}" + (f": {by.reason}" if by.reason else ""))[:200]


def set_priority(
    executions: Iterable[Execution], priority: int, by: Actor, known: Answers | None = None
) -> int:
    """Change the priority; running work keeps its slot and has the new priority from its next step on, what
    has ended when it is retried. Done work is left alone.

    Raises `BadInput` for a rank that is no priority. `known`: the answers to `placing.to_set_priority`, for a
    caller that holds the scheduler lock.
    """
    check_rank(priority)
    act = partial(_set_priority, priority=priority, by=by)
    return _act_on(executions, act, placing.to_set_priority(lambda execution: priority), known)


def _set_priority(lock: SchedulerLock, chunk: Chunk, places: Places, priority: int, by: Actor) -> int:
    others = [e for e in chunk if e.priority != priority and e.state in NOT_DONE]
    leases.revoke_unstarted_of(others)
    by.record_each(
        "set priority",
        others,
        lambda execution: {"priority": PRIORITY_NAMES[execution.priority]},
        lambda execution: {"priority": PRIORITY_NAMES[priority]},
    )
    by_route = _by_route([e for e in others if e.state in BEFORE_IT_RUNS], places)
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


def _by_route(executions: Iterable[Execution], places: Places) -> dict[int, list[Execution]]:
    """The executions by the route they would wait on, without those that have none."""
    by_route: dict[int, list[Execution]] = defaultdict(list)
    for execution in executions:
        if place := places.get(execution.pk):
            by_route[place.route_id].append(execution)
    return dict(by_route)
