"""What a bulk action can do: each verb with its states, its argument, and the permission it needs.

The verbs call `operations.executions`, as the buttons of a single row do. `restore` cannot be chosen: it
undoes another action.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q

from queuemgr.base.errors import BadInput
from queuemgr.lifecycle.enqueue import check_horizon, priority_of
from queuemgr.models import UNSUCCESSFUL, Execution, State
from queuemgr.operations import executions
from queuemgr.operations.bulk import audit_reader
from queuemgr.operations.controls import Actor
from queuemgr.operations.executions import BEFORE_IT_RUNS
from queuemgr.reporting.filtering import parse_time

Arguments = Mapping[str, Any]
Act = Callable[[Iterable[Execution], Arguments, Actor], int]


@dataclass(frozen=True)
class Action:
    name: str
    does: str
    """What happens to an execution, as the end of "each of them …"."""
    permission: str
    """The codename a person needs besides `add_bulkaction`."""
    takes: tuple[State, ...]
    """The states it acts on; executions in other states are left alone."""
    act: Act
    wants: str = ""
    """The name of its one argument, if it has one."""
    read: Callable[[Any], Any] = str
    """Parses its argument into what the row stores; raises `BadInput`."""
    unless: Callable[[Arguments], Q] | None = None
    """Executions that need no change."""
    starts_again: bool = False
    """Whether it restarts ended work, so that a rate is wise."""
    by_record: bool = False
    """Whether it acts on what another action changed, by the audit log, instead of on a filter."""

    def checked(self, given: Arguments) -> dict[str, Any]:
        """The arguments as the row stores them; raises `BadInput` for an unknown, missing or bad one."""
        unknown = sorted(set(given) - {self.wants})
        if unknown:
            raise BadInput(f"{self.name} takes no {unknown[0]!r}")
        if not self.wants:
            return {}
        if given.get(self.wants) in (None, ""):
            raise BadInput(f"{self.name} wants {self.wants}: {ARGUMENTS.get(self.wants, 'a number')}")
        return {self.wants: self.read(given[self.wants])}

    def eligible(self, arguments: Arguments) -> Q:
        """The executions it would change."""
        takes = Q(state__in=self.takes)
        return takes & ~self.unless(arguments) if self.unless else takes


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


def _reschedule(rows: Iterable[Execution], arguments: Arguments, by: Actor) -> int:
    return executions.set_run_after(rows, datetime.fromisoformat(arguments["run_after"]), by)


UNDONE = tuple(state for state in State if state != State.DONE)

ACTIONS: Mapping[str, Action] = {
    verb.name: verb
    for verb in (
        Action(
            "retry", "goes on from the step it stopped at", "retry_execution", UNSUCCESSFUL,
            lambda rows, _, by: executions.retry(rows, by), starts_again=True,
        ),
        Action(
            "restart", "starts again at its first step, without what its steps stored",
            "retry_execution", UNSUCCESSFUL,
            lambda rows, _, by: executions.retry_from_start(rows, by), starts_again=True,
        ),
        Action(
            "cancel", "is cancelled if it waits, and asked to stop if it runs",
            "cancel_execution", (*BEFORE_IT_RUNS, State.RUNNING),
            lambda rows, _, by: executions.cancel(rows, by),
        ),
        Action(
            "skip", "is left out for good", "skip_execution", (*BEFORE_IT_RUNS, State.FAILED),
            lambda rows, _, by: executions.skip(rows, by),
        ),
        Action(
            "priority", "gets another priority", "prioritise_execution",
            UNDONE, lambda rows, given, by: executions.set_priority(rows, priority_of(given["priority"]), by),
            wants="priority", read=_priority,
            unless=lambda given: Q(priority=priority_of(given["priority"])),
        ),
        Action(
            "reschedule", "starts no earlier than another time", "prioritise_execution",
            BEFORE_IT_RUNS, _reschedule, wants="run_after", read=_run_after,
        ),
    )
}  # fmt: skip


RESTORE = Action(
    "restore", "gets back the priority it had before that action", "prioritise_execution",
    UNDONE, lambda rows, given, by: audit_reader.restore_priorities(given["undoes"], rows, by),
    wants="undoes", read=int, by_record=True,
)  # fmt: skip


def action_named(name: str) -> Action:
    """The verb of this name; raises `BadInput` naming those there are."""
    try:
        return {**ACTIONS, RESTORE.name: RESTORE}[name]
    except KeyError:
        raise BadInput(f"no bulk verb is called {name!r}; there are: {', '.join(ACTIONS)}") from None
