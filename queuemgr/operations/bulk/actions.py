"""The registry of actions on executions: the permission, the states and the argument of each.

The admin offers them for single executions by the same registry. They call `operations.executions`, each
inside the transaction of one chunk. `restore` cannot be chosen: it undoes another action.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q

from queuemgr.base.errors import BadInput
from queuemgr.base.scheduler_lock import SchedulerLock
from queuemgr.lifecycle.enqueue import check_horizon, priority_of
from queuemgr.models import NOT_DONE, UNFINISHED, UNSUCCESSFUL, Execution, State
from queuemgr.operations import executions
from queuemgr.operations.bulk.audit_reader import restore_priorities
from queuemgr.operations.controls import Actor
from queuemgr.operations.executions import BEFORE_IT_RUNS
from queuemgr.reporting.filtering import parse_time

Arguments = Mapping[str, Any]
Act = Callable[[SchedulerLock, Iterable[Execution], Arguments, Actor], int]


@dataclass(frozen=True)
class Action:
    name: str
    description: str
    """What happens to an execution, as the end of "each of them …"."""
    permission: str
    """The codename a person needs besides `add_bulkaction`."""
    states: tuple[State, ...]
    """The states it acts on; executions in other states are left alone."""
    act: Act
    argument: str = ""
    """The name of its one argument, if it has one."""
    parse: Callable[[Any], Any] = str
    """Parses its argument into what the row stores; raises `BadInput`."""
    unless: Callable[[Arguments], Q] | None = None
    """Executions that need no change."""
    starts_again: bool = False
    """Whether it restarts ended work, so that a rate is wise."""
    from_audit_log: bool = False
    """Whether it acts on what another action changed, read from the audit log, instead of on a filter."""

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
    return lambda lock, rows, arguments, by: act(rows, by)


def _set_priority(lock: SchedulerLock, rows: Iterable[Execution], arguments: Arguments, by: Actor) -> int:
    return executions.set_priority(rows, priority_of(arguments["priority"]), by)


def _reschedule(lock: SchedulerLock, rows: Iterable[Execution], arguments: Arguments, by: Actor) -> int:
    return executions.set_run_after(rows, datetime.fromisoformat(arguments["run_after"]), by)


ACTIONS: Mapping[str, Action] = {
    action.name: action
    for action in (
        Action(
            "retry", "continues from the step it stopped at", "retry_execution", UNSUCCESSFUL,
            _plain(executions.retry), starts_again=True,
        ),
        Action(
            "retry_from_start", "starts again at its first step, without what its steps stored",
            "retry_execution", UNSUCCESSFUL, _plain(executions.retry_from_start), starts_again=True,
        ),
        Action(
            "cancel", "is cancelled if it waits; cancellation is requested if it runs",
            "cancel_execution", UNFINISHED, _plain(executions.cancel),
        ),
        Action(
            "skip", "is left out for good", "skip_execution", (*BEFORE_IT_RUNS, State.FAILED),
            _plain(executions.skip),
        ),
        Action(
            "priority", "gets another priority", "prioritise_execution", NOT_DONE, _set_priority,
            argument="priority", parse=_priority,
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
    NOT_DONE, lambda lock, rows, given, by: restore_priorities(lock, given["undoes"], rows, by),
    argument="undoes", parse=int, from_audit_log=True,
)  # fmt: skip


def action_named(name: str) -> Action:
    """The action of this name; raises `BadInput` naming those there are."""
    try:
        return {**ACTIONS, RESTORE.name: RESTORE}[name]
    except KeyError:
        raise BadInput(f"no bulk action is called {name!r}; there are: {', '.join(ACTIONS)}") from None
