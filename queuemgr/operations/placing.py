"""Where executions would wait, by the rules of their flows: asked before any lock is held.

A rule is the application's code, and may take its time: whoever held the scheduler lock meanwhile would hold
up all decisions. So the answers are kept with what they were asked about, and used under the locks only where
that is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from copy import copy, deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

from queuemgr.base.errors import BadInput, RuleFailed, SluiceError, UnknownFlow, UnknownStep
from queuemgr.flows.flow import StepRef, get_flow
from queuemgr.models import UNSUCCESSFUL, Execution, State
from queuemgr.operations import batch_allowances
from queuemgr.scheduling import routes
from queuemgr.scheduling.claims import RouteKind
from queuemgr.scheduling.step_rules import first_step, step_from

BEFORE_IT_RUNS = (State.WAITING, State.LEASED)


class Place(NamedTuple):
    """A step, and the route an execution waits on for it."""

    phase: str
    step: str
    route_id: int


class Asked(NamedTuple):
    ref: StepRef
    kind: RouteKind


class Question(NamedTuple):
    """What the rules are asked about an execution in one of these states; None leaves it alone."""

    states: Collection[State]
    where: Callable[[Execution], Asked | None]


class Answer(NamedTuple):
    about: tuple[object, ...]
    place: Place | None


Answers = Mapping[int, Answer]
"""By the id of the execution."""


def ask(question: Question, ids: Collection[int]) -> Answers:
    """Ask this about those of these executions it is for; inserts the routes they would wait on."""
    found = Execution.objects.filter(pk__in=ids, state__in=question.states).select_related("route")
    rows = list(found.order_by("pk"))
    about = {row.pk: deepcopy(_about(row)) for row in rows}  # before a rule can change what it is given
    asked = {row.pk: question.where(row) for row in rows}
    route_ids = routes.ids_of(each.kind for each in asked.values() if each)
    return {pk: Answer(about[pk], _place(each, route_ids)) for pk, each in asked.items()}


def _place(asked: Asked | None, route_ids: Mapping[RouteKind, int]) -> Place | None:
    if asked is None:
        return None
    return Place(asked.ref.phase.name, asked.ref.step.name, route_ids[asked.kind])


def _about(execution: Execution) -> tuple[object, ...]:
    """What the answer rests on, the payload as it was stored."""
    e = execution
    return e.flow, e.phase, e.step, e.payload, e.context, e.priority, e.resumed, e.route_id


def is_answered(question: Question, answers: Answers, execution: Execution) -> bool:
    """Whether what is known of an execution, read under the locks, is still true of it."""
    answer = answers.get(execution.pk)
    return execution.state not in question.states or bool(answer and answer.about == _about(execution))


def step_needed(execution: Execution) -> Asked | None:
    """The first step that is needed from where it stopped. Mostly that is the step it failed at; it may have
    failed between two steps, when a rule of the next could not be evaluated."""
    return _unless_gone(_needed, execution)


def at_start(execution: Execution) -> Asked | None:
    """The first step its payload needs."""
    return _unless_gone(_start, execution)


def with_priority(execution: Execution, priority: int) -> Asked | None:
    """Where it is, with another priority."""
    return _unless_gone(lambda e: _with_priority(e, priority), execution)


def with_payload(execution: Execution, payload: dict[str, Any], *, from_start: bool) -> Asked:
    """As `at_start` or `step_needed`, with another payload.

    Raises `BadInput`, `NeverFits` or whatever `SluiceError` the flow raises, so that an odd payload cannot
    stop a worker later.
    """
    changed = copy(execution)
    changed.payload = payload
    try:
        asked = _start(changed) if from_start else _needed(changed)
    except RuleFailed as error:
        if isinstance(error.__cause__, SluiceError):
            raise error.__cause__ from None
        problem = f"flow {execution.flow} cannot work with this payload ({error})"
        raise BadInput(f"{problem}: correct the value it names") from error
    routes.check_fits(asked.kind)
    return asked


def to_retry(*, from_start: bool) -> Question:
    return Question(UNSUCCESSFUL, at_start if from_start else step_needed)


def to_set_priority(priority_of: Callable[[Execution], int]) -> Question:
    return Question(BEFORE_IT_RUNS, lambda execution: with_priority(execution, priority_of(execution)))


def to_put_back() -> Question:
    return Question((State.CANCELLED,), lambda execution: with_priority(execution, execution.priority))


def _unless_gone(where: Callable[[Execution], Asked], execution: Execution) -> Asked | None:
    """None if its flow or step is gone, or a rule fails."""
    try:
        return where(execution)
    except (UnknownFlow, UnknownStep, RuleFailed):
        return None


def _needed(e: Execution) -> Asked:
    ref = step_from(e.flow, e.phase, e.step, e.inputs)
    kind = routes.kind_of(ref, e.priority, e.inputs, resumed=True)
    return Asked(ref, batch_allowances.in_batch(kind, e.batch_id))


def _start(e: Execution) -> Asked:
    ref = first_step(e.flow, e.payload)
    kind = routes.kind_of(ref, e.priority, e.payload, resumed=False)
    return Asked(ref, batch_allowances.in_batch(kind, e.batch_id))


def _with_priority(e: Execution, priority: int) -> Asked:
    ref = get_flow(e.flow).at(e.phase, e.step)
    kind = routes.kind_of(ref, priority, e.inputs, resumed=e.resumed)
    kind = replace(kind, retrying=bool(e.route and e.route.retrying))
    return Asked(ref, batch_allowances.in_batch(kind, e.batch_id))
