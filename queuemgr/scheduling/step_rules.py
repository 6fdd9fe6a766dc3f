"""Calls the rules of a flow's steps: the application's functions that say where work waits and what it takes.

A rule may raise anything and return anything. What cannot be used is refused with a sentence that names
the flow, the rule and the step, so that a finished step is never repeated for a broken rule of the next.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from queuemgr.base import application_call
from queuemgr.base.column_sizes import MAX_INTEGER
from queuemgr.base.errors import ConfigurationError, RuleFailed, SluiceError
from queuemgr.base.misconduct import Misconduct, refuse_not_run
from queuemgr.base.redaction import describe_error, message_of
from queuemgr.base.safe_text import excerpt
from queuemgr.flows.flow import Context, Step, StepRef, get_flow
from queuemgr.scheduling import claims, estimates

Taken = TypeVar("Taken")


class Needs(NamedTuple):
    """What a step takes of the limits, as rows store it."""

    limit_keys: str
    cost: int
    weight: int
    resources: str
    uses: str


def needs_of(ref: StepRef, context: Context) -> Needs:
    """What the rules of this step ask for. Raises `RuleFailed`."""
    return Needs(
        limit_keys=_call(ref, "key", context, claims.as_text),
        cost=_call(ref, "cost", context, partial(whole_number, least=0)),
        weight=_call(ref, "weight", context, partial(whole_number, least=1)),
        resources=_call(ref, "resources", context, claims.resources_as_text),
        uses=_call(ref, "uses", context, partial(estimates.as_text, ref)),
    )


def first_step(flow: str, context: Context) -> StepRef:
    """The first step this execution needs. Raises `UnknownFlow`, and `RuleFailed` when it needs none."""
    ref = _first_needed(get_flow(flow).steps(), context)
    if ref is None:
        raise RuleFailed(f"flow {flow}: no step is needed for {dict(context)!r}")
    return ref


def step_from(flow: str, phase: str, step: str, context: Context) -> StepRef:
    """This step or, where it is not needed (any more), the next one that is.

    Raises `UnknownFlow`, `UnknownStep`, and `RuleFailed` when none is.
    """
    known = get_flow(flow)
    here = known.at(phase, step)
    ref = _first_needed([here, *known.steps_after(here)], context)
    if ref is None:
        raise RuleFailed(f"flow {flow}: no step from {phase}/{step} on is needed for {dict(context)!r}")
    return ref


def step_after(flow: str, phase: str, step: str, context: Context) -> StepRef | None:
    """The next step this execution needs, or None after its last.

    Raises `UnknownFlow`, `UnknownStep` and `RuleFailed`.
    """
    known = get_flow(flow)
    return _first_needed(known.steps_after(known.at(phase, step)), context)


def _first_needed(refs: Iterable[StepRef], context: Context) -> StepRef | None:
    return next((ref for ref in refs if _is_needed(ref, context)), None)


def _is_needed(ref: StepRef, context: Context) -> bool:
    return _call(ref, "needed", context, _truth)


def _truth(value: object) -> bool:
    """A coroutine or a generator is always true, whatever it would have answered."""
    refuse_not_run(value)
    return bool(value)


def _call(ref: StepRef, rule: str, context: Context, take: Callable[[Any], Taken]) -> Taken:
    """What is made of the value of a rule, however it fails: one that calls sys.exit() must not end a worker.

    It gets a copy: what it changes would be stored with the step that has just ended.
    """
    function = getattr(ref.step, rule)
    if function is getattr(Step, rule):
        return take(function(context))  # the default, which is ours
    of = f"flow {ref.flow}: {rule} of step {ref.step.name}"
    try:
        return application_call.call(function, _copy(context), take=take)
    except Misconduct as error:
        raise RuleFailed(f"{of} {error}", ref) from error
    except SluiceError as error:
        raise RuleFailed(f"{of}: {message_of(error)}", ref) from error
    except BaseException as error:
        raise RuleFailed(f"{of} raised {describe_error(error)}", ref) from error


def _copy(context: Context) -> dict[str, Any]:
    """Payloads and contexts are JSON."""
    copied: dict[str, Any] = json.loads(json.dumps(dict(context)))
    return copied


def whole_number(value: Any, *, least: int) -> int:
    """The value, if an integer column can hold it. Raises `ConfigurationError`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigurationError(f"{excerpt(value)} is no whole number")
    number = int.__index__(value)  # an application's class of numbers may say that it is another
    if not least <= number <= MAX_INTEGER:
        shown = number if abs(number) < 10**60 else "a number of more than 60 digits"
        raise ConfigurationError(f"{shown} is not between {least} and {MAX_INTEGER}")
    return number
