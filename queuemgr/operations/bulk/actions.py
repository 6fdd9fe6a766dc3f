"""The registry of actions on executions: the permission, the states and the argument of each.

The admin offers them for single executions by the same registry. They call `operations.executions`, each
inside the transaction of one chunk. `restore` cannot be chosen: it undoes another action.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q

from queuemgr.base.errors import BadInput
from queuemgr.lifecycle.enqueue import check_horizon, priority_of
from queuemgr.models import NOT_DONE, UNFINISHED, UNSUCCESSFUL, Execution, State
from queuemgr.operations import executions, placing
from queuemgr.operations.bulk.audit_reader import (
    put_back_cancelled,
    restore_priorities,
    to_restore_priorities,
)
from queuemgr.operations.controls import Actor
from queuemgr.operations.placing import BEFORE_IT_RUNS, Answers, Question
from queuemgr.reporting.filtering import parse_time

Arguments = Mapping[str, Any]
Act = Callable[[Iterable[Execution], Arguments, Actor, Answers], int]
Ask = Callable[[Arguments, Sequence[int]], Question]


@dataclass(frozen=True)
class Action:
    name: str
    description: str
    """What happens to an execution, as the end of "each of them …"."""
    permission: str
    """The codename a person needs for a single execution."""
    states: tuple[State, ...]
    """The states it acts on; executions in other states are left alone."""
    act: Act
    """Called under the scheduler lock, with the answers to `question` about them."""
    question: Ask | None = None
    """What the flows' rules are asked about executions before the lock is taken, if it moves them."""
    argument: str = ""
    """The name of its one argument, if it has one."""
    parse: Callable[[Any], Any] = str
    """Parses its argument into what the row stores; raises `BadInput`."""
    unless: Callable[[Arguments], Q] | None = None
    """Executions that need no change."""
    irreversible: bool = False
    """Whether nothing undoes it: it then needs a reason, whoever starts it through what."""
    starts_again: bool = False
    """Whether it restarts ended work, so that a rate is wise."""
    from_audit_log: bool = False
    """Whether it acts on what another action changed, read from the audit log, instead of on a filter: it
    undoes that one."""

    @property
    def permissions(self) -> tuple[str, str]:
        """The permissions of whoever starts it, which they need until it has ended."""
        starts = "undo_auditentry" if self.from_audit_log else "add_bulkaction"
        return f"queuemgr.{starts}", f"queuemgr.{self.permission}"

    @property
    def title(self) -> str:
        return self.name.replace("_", " ")

    def checked(self, given: Arguments) -> dict[str, Any]:
        """The arguments as the row stores them; raises `BadInput` for an unknown, missing or bad one."""
        unknown = sorted(set(given) - {self.argument})
        if unknown:
            raise BadInput(f"{self.name} takes no {unknown[0]!r}")
        if not self.argument:
            return {}
        if given.get(self.argument) in (None, ""):
            raise BadInput(f"{self.name} needs {self.argument}: {ARGUMENTS.get(self.argument, 'a number')}")
        return {self.argument: self.parse(given[self.argument])}

    def eligible(self, arguments: Arguments) -> Q:
        """The executions it would change."""
        in_state = Q(state__in=self.states)
        return in_state & ~self.unless(arguments) if self.unless else in_state


ARGUMENTS = {
    "priority": "high, normal or low",
    "run_after": "the time before which none starts, as 2026-11-28 06:00 (UTC); a past one: now",
}
"""The formats of the arguments people give."""


def _priority(value: Any) -> str:
    priority_of(str(value))
    return str(value)


def _run_after(value: Any) -> str:
    moment = parse_time("run_after", value)
    check_horizon("run_after", moment)
    return moment.astimezone(UTC).isoformat()


def _plain(act: Callable[[Iterable[Execution], Actor], int]) -> Act:
    return lambda rows, arguments, by, known: act(rows, by)


def _to_retry(*, from_start: bool) -> Ask:
    return lambda arguments, ids: placing.to_retry(from_start=from_start)


def _set_priority(rows: Iterable[Execution], arguments: Arguments, by: Actor, known: Answers) -> int:
    return executions.set_priority(rows, priority_of(arguments["priority"]), by, known)


def _to_set_priority(arguments: Arguments, ids: Sequence[int]) -> Question:
    priority = priority_of(arguments["priority"])
    return placing.to_set_priority(lambda execution: priority)


def _reschedule(rows: Iterable[Execution], arguments: Arguments, by: Actor, known: Answers) -> int:
    return executions.set_run_after(rows, datetime.fromisoformat(arguments["run_after"]), by)


ACTIONS: Mapping[str, Action] = {
    action.name: action
    for action in (
        Action(
            "retry", "continues from the step it stopped at", "retry_execution", UNSUCCESSFUL,
            lambda rows, given, by, known: executions.retry(rows, by, known),
            _to_retry(from_start=False), starts_again=True,
        ),
        Action(
            "retry_from_start", "starts again at its first step, without what its steps stored",
            "retry_execution", UNSUCCESSFUL,
            lambda rows, given, by, known: executions.retry_from_start(rows, by, known),
            _to_retry(from_start=True), irreversible=True, starts_again=True,
        ),
        Action(
            "cancel", "is cancelled if it waits; cancellation is requested if it runs",
            "cancel_execution", UNFINISHED, _plain(executions.cancel), irreversible=True,
        ),
        Action(
            "skip", "is left out for good", "skip_execution", (*BEFORE_IT_RUNS, State.FAILED),
            _plain(executions.skip), irreversible=True,
        ),
        Action(
            "priority", "gets another priority", "prioritise_execution", NOT_DONE,
            _set_priority, _to_set_priority, argument="priority", parse=_priority,
            unless=lambda given: Q(priority=priority_of(given["priority"])),
        ),
        Action(
            "reschedule", "starts no earlier than another time", "prioritise_execution",
            BEFORE_IT_RUNS, _reschedule, argument="run_after", parse=_run_after,
        ),
    )
}  # fmt: skip


RESTORE = Action(
    "restore", "gets back the priority it had before that action", "prioritise_execution",
    NOT_DONE, lambda rows, given, by, known: restore_priorities(given["undoes"], rows, by, known),
    lambda given, ids: to_restore_priorities(given["undoes"], ids),
    argument="undoes", parse=int, from_audit_log=True,
)  # fmt: skip


PUT_BACK = Action(
    "put_back", "waits again if that action cancelled it before it ran", "cancel_execution",
    (State.CANCELLED,), lambda rows, given, by, known: put_back_cancelled(given["undoes"], rows, by, known),
    lambda given, ids: placing.to_put_back(), argument="undoes", parse=int, from_audit_log=True,
)  # fmt: skip


def action_named(name: str) -> Action:
    """The action of this name; raises `BadInput` naming those there are."""
    try:
        return {**ACTIONS, RESTORE.name: RESTORE, PUT_BACK.name: PUT_BACK}[name]
    except KeyError:
        raise BadInput(f"no bulk action is called {name!r}; there are: {', '.join(ACTIONS)}") from None
