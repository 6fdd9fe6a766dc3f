"""Where an execution continues after a step, by the rules of its flow; evaluated outside of any transaction.

Rules are the application's code: they may be slow, raise or exit. They are called in the slot that ran
the step, before its lease is ended, and never under a lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from queuemgr.base.errors import RuleFailed, UnknownFlow, UnknownStep
from queuemgr.flows.flow import StepRef, get_flow
from queuemgr.flows.outcomes import Done, Result, Snoozed
from queuemgr.scheduling import routes
from queuemgr.scheduling.claims import RouteKind, batch_of
from queuemgr.scheduling.step_rules import step_after


class StepRun(Protocol):
    """What a grant and a held lease both say of the step that ran."""

    @property
    def flow(self) -> str: ...
    @property
    def phase(self) -> str: ...
    @property
    def step(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def limit_keys(self) -> str: ...
    @property
    def payload(self) -> dict[str, Any]: ...
    @property
    def context(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class NextStep:
    """It waits for this step, on the route of this kind."""

    phase: str
    step: str
    kind: RouteKind


@dataclass(frozen=True, slots=True)
class FlowEnds:
    """No further step is needed."""


@dataclass(frozen=True, slots=True)
class RuleBroke:
    """A rule of the flow could not be evaluated: that of this step, where it stops until a person retries."""

    phase: str
    step: str
    message: str


Continuation = NextStep | FlowEnds | RuleBroke


def continuation_of(run: StepRun, result: Result) -> Continuation | None:
    """Where this outcome leads; None for one that stays at its step under the limits it has."""
    if isinstance(result, Done):
        return _evaluated(run, _after_done, result.context)
    if isinstance(result, Snoozed) and result.context:
        return _evaluated(run, _same_step, result.context)
    return None


def asks_rules(run: StepRun, result: Result) -> bool:
    """Whether `continuation_of` may call rules of the flow."""
    if isinstance(result, Done):
        try:
            flow = get_flow(run.flow)
            return bool(flow.steps_after(flow.at(run.phase, run.step)))
        except (UnknownFlow, UnknownStep):
            return False
    return isinstance(result, Snoozed) and bool(result.context)


def rule_that_hangs(run: StepRun, result: Result, seconds: float) -> RuleBroke:
    """In place of the continuation, whose rules do not return: it stops where they would be asked again."""
    flow = get_flow(run.flow)
    here = flow.at(run.phase, run.step)
    behind = flow.steps_after(here) if isinstance(result, Done) else []
    at = behind[0] if behind else here
    message = f"flow {run.flow}: a rule of step {at.step.name}, or behind it, still ran after {seconds:g} s"
    return RuleBroke(at.phase.name, at.step.name, message)


Evaluate = Callable[[StepRun, Mapping[str, Any]], Continuation]


def _evaluated(run: StepRun, evaluate: Evaluate, added: Mapping[str, Any]) -> Continuation:
    try:
        return evaluate(run, {**run.payload, **run.context, **added})
    except RuleFailed as error:
        at = error.at
        phase, step = (at.phase.name, at.step.name) if isinstance(at, StepRef) else (run.phase, run.step)
        return RuleBroke(phase, step, str(error))
    except (UnknownFlow, UnknownStep) as error:
        return RuleBroke(run.phase, run.step, str(error))


def _after_done(run: StepRun, known: Mapping[str, Any]) -> Continuation:
    following = step_after(run.flow, run.phase, run.step, known)
    return _waits_for(run, following, known) if following else FlowEnds()


def _same_step(run: StepRun, known: Mapping[str, Any]) -> Continuation:
    return _waits_for(run, get_flow(run.flow).at(run.phase, run.step), known)


def _waits_for(run: StepRun, ref: StepRef, known: Mapping[str, Any]) -> NextStep:
    """In a phase already begun it waits ahead of work that would begin it."""
    kind = routes.kind_of(ref, run.priority, known, resumed=ref.phase.name == run.phase)
    return NextStep(ref.phase.name, ref.step.name, kind.also_under(batch_of(run.limit_keys)))
