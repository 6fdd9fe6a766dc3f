"""The words a row may hold: states, outcomes, priorities."""

from __future__ import annotations

from django.db import models

from queuemgr.flows import flow as flows


class State(models.TextChoices):
    """The life of an execution; `states.py` holds the legal moves."""

    WAITING = "waiting"
    LEASED = "leased"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


FINAL = (State.DONE, State.FAILED, State.SKIPPED, State.CANCELLED)


HELD = (State.LEASED, State.RUNNING)


class Outcome(models.TextChoices):
    """How one attempt ended."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    RETRIED = "retried", "failed, tried again"
    SNOOZED = "snoozed", "asked to wait"
    INTERRUPTED = "interrupted", "stopped by a shutdown"
    CANCELLED = "cancelled"
    LOST = "lost", "worker lost"


NOT_COUNTED_AS_ATTEMPT = (Outcome.SNOOZED, Outcome.INTERRUPTED)
"""Endings that are nobody's failure: not counted as tries."""


class Priority(models.IntegerChoices):
    HIGH = flows.HIGH, "high"
    NORMAL = flows.NORMAL, "normal"
    LOW = flows.LOW, "low"


class ActionState(models.TextChoices):
    """The life of a bulk action."""

    PREVIEWED = "previewed"
    RUNNING = "running"
    STOPPED = "stopped"
    DONE = "done"
    FAILED = "failed"
