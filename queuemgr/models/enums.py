"""The enumerations stored in rows: states, outcomes, priorities."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import models

from queuemgr.flows import flow as flows
from queuemgr.flows import unique


class State(models.TextChoices):
    """The state of an execution; `lifecycle/states.py` has the legal transitions."""

    WAITING = "waiting"
    LEASED = "leased"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


FINAL = (State.DONE, State.FAILED, State.SKIPPED, State.CANCELLED)


HELD = (State.LEASED, State.RUNNING)

UNFINISHED = (State.WAITING, *HELD)

UNSUCCESSFUL = (State.FAILED, State.CANCELLED, State.SKIPPED)
"""Final states a person may retry from."""

NOT_DONE = (*UNFINISHED, *UNSUCCESSFUL)
"""All but done: what still runs one day, or may be retried."""


class UniqueStates(models.IntegerChoices):
    """In which states an execution keeps its unique key."""

    WAITING = unique.WAITING, "while it waits to begin"
    UNFINISHED = unique.UNFINISHED, "until it ends"
    ALL = unique.ALL, "after it ended, too"


WITHOUT_KEY: Mapping[int | None, tuple[State, ...]] = {
    UniqueStates.WAITING: (*HELD, *FINAL),
    UniqueStates.UNFINISHED: FINAL,
}
"""By that, the states which end it."""


class Outcome(models.TextChoices):
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    RETRIED = "retried", "failed, will be retried"
    SNOOZED = "snoozed", "snoozed by the step"
    INTERRUPTED = "interrupted", "interrupted by a shutdown"
    CANCELLED = "cancelled"
    LOST = "lost", "lost with its worker"


NOT_COUNTED_AS_ATTEMPT = (Outcome.SNOOZED, Outcome.INTERRUPTED)
"""Outcomes that do not count towards the retry policy's maximum."""


class Priority(models.IntegerChoices):
    HIGH = flows.HIGH, "high"
    NORMAL = flows.NORMAL, "normal"
    LOW = flows.LOW, "low"


class ActionState(models.TextChoices):
    PREVIEWED = "previewed"
    RUNNING = "running"
    STOPPED = "stopped"
    DONE = "done"
    FAILED = "failed"
