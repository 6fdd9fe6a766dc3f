"""What a bulk action can do: each verb with what it takes, what it wants to know, and who may.

Each calls the function of `operations.executions` that a single row's button calls. `restore` cannot be
chosen: it undoes what another action did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q

from queuemgr.base.errors import BadInput
from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle.enqueue import priority_of
from queuemgr.models import Execution, State
from queuemgr.operations import executions
from queuemgr.operations.bulk import audit_reader
from queuemgr.operations.controls import Actor

Arguments = Mapping[str, Any]
Act = Callable[[Iterable[Execution], Arguments, Actor], int]


def _nothing_already(arguments: Arguments) -> Q:
    return Q()


@dataclass(frozen=True)
class Action:
    """One thing that can be done with many executions."""

    name: str
    does: str
    """What becomes of an execution, as the end of "each of them …"."""
    permission: str
    """The codename a person needs besides `add_bulkaction`."""
    takes: tuple[State, ...]
    """The states it acts on; whatever stands elsewhere is left alone."""
    act: Act
    wants: str = ""
    """The name of its one argument, if it wants one."""
    read: Callable[[Any], Any] = str
    """Its argument as a row keeps it; raises `BadInput`."""
    unless: Callable[[Arguments], Q] = _nothing_already
    """What a row that needs no change looks like."""
    starts_again: bool = False
    """Whether it lets ended work loose again, so that a rate is wise."""
    by_record: bool = False
    """Whether it meets what another action changed, by its record, and not what a filter meets."""

    def checked(self, given: Arguments) -> dict[str, Any]:
        """These arguments as a row keeps them; raises `BadInput` for one too many, too few or bad."""
        unknown = sorted(set(given) - {self.wants})
        if unknown:
            raise BadInput(f"{self.name} takes no {unknown[0]!r}")
        if not self.wants:
            return {}
        if given.get(self.wants) in (None, ""):
            raise BadInput(
                f"{self.name} wants {self.wants}: {ARGUMENTS.get(self.wants, 'a number')}"
            )
        return {self.wants: self.read(given[self.wants])}

    def eligible(self, arguments: Arguments) -> Q:
        """The executions it would change."""
        already = self.unless(arguments)
        return Q(state__in=self.takes) & ~already if already else Q(state__in=self.takes)


ARGUMENTS = {
    "priority": "high, normal or low",
    "run_after": "the time before which none starts, as 2026-11-28 06:00 (UTC); a past one: now",
}
"""What the arguments look like that people give."""


def _priority(value: Any) -> str:
    priority_of(str(value))
    return str(value)


def _moment(value: Any) -> str:
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        raise BadInput(
            f"run_after {str(value)[:60]!r} is no time; write it as 2026-11-28 06:00"
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if moment - database_now() > executions.MAX_HORIZON:
        raise BadInput(
            f"run_after {moment:%Y-%m-%d} is more than ten years ahead: give an earlier time"
        )
    return moment.astimezone(UTC).isoformat()


def _set_priority(rows: Iterable[Execution], arguments: Arguments, by: Actor) -> int:
    return executions.set_priority(rows, priority_of(arguments["priority"]), by)


def _move(rows: Iterable[Execution], arguments: Arguments, by: Actor) -> int:
    return executions.set_run_after(rows, datetime.fromisoformat(arguments["run_after"]), by)


def _restore(rows: Iterable[Execution], arguments: Arguments, by: Actor) -> int:
    return audit_reader.put_priorities_back(arguments["undoes"], rows, by)


UNSUCCESSFUL = (State.FAILED, State.CANCELLED, State.SKIPPED)
BEFORE_IT_RUNS = (State.WAITING, State.LEASED)

ACTIONS: Mapping[str, Action] = {
    verb.name: verb
    for verb in (
        Action(
            "retry", "goes on from the step it stopped at", "retry_execution", UNSUCCESSFUL,
            lambda rows, _, by: executions.retry(rows, by), starts_again=True,
        ),
        Action(
            "restart", "begins anew at its first step, and forgets what its steps learnt",
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
            tuple(state for state in State if state != State.DONE), _set_priority,
            wants="priority", read=_priority,
            unless=lambda given: Q(priority=priority_of(given["priority"])),
        ),
        Action(
            "reschedule", "starts no earlier than another time", "prioritise_execution",
            BEFORE_IT_RUNS, _move, wants="run_after", read=_moment,
        ),
    )
}  # fmt: skip


RESTORE = Action(
    "restore", "gets back the priority it had before that action", "prioritise_execution",
    tuple(state for state in State if state != State.DONE), _restore,
    wants="undoes", read=int, by_record=True,
)  # fmt: skip


def action_named(name: str) -> Action:
    """The verb of this name; raises `BadInput` naming those there are."""
    try:
        return {**ACTIONS, RESTORE.name: RESTORE}[name]
    except KeyError:
        raise BadInput(
            f"no bulk verb is called {name!r}; there are: {', '.join(ACTIONS)}"
        ) from None
