"""Schedules, and what became of each of their due times."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import Q

from queuemgr.base.column_sizes import LONGEST_ACTOR, MAX_FLOW_NAME
from queuemgr.models.enums import Priority, State
from queuemgr.models.limits import Pausable, PausableQuerySet
from queuemgr.models.stated import Stated
from queuemgr.models.whole_numbers import WholeNumber
from queuemgr.models.work import Execution

MAX_NAME = 200
"""Characters of a schedule's name: it is part of the keys of its executions."""

MAX_JITTER = 86_400
MAX_MADE_UP = 1000


class Misfire(models.TextChoices):
    SKIP = "skip"
    RUN_ONCE = "run once", "Run once"
    RUN_ALL = "run all", "Run all"


class Overlap(models.TextChoices):
    ALLOW = "allow"
    SKIP = "skip"
    QUEUE_ONE = "queue one", "Queue one"


class RunOutcome(models.TextChoices):
    ENQUEUED = "enqueued"
    SKIPPED = "skipped"
    MISSED = "missed"


class ScheduleQuerySet(PausableQuerySet):
    def in_force(self) -> Self:
        return self.filter(retired_at__isnull=True)


class Schedule(Pausable, Stated):
    """What is enqueued again and again: when, what, and what becomes of a run that is late or meets another.

    Whoever changes `timing` need not work out the next due time: a row whose `planned_for` differs from it is
    planned anew by the next tick.
    """

    name = models.CharField(max_length=MAX_NAME, unique=True)
    flow = models.CharField(max_length=MAX_FLOW_NAME)
    timing = models.CharField(
        max_length=500, help_text="As “cron 30 3 * * * in Europe/Berlin”, “every 5m from start”."
    )
    payload = models.JSONField(default=dict, blank=True)
    priority = models.SmallIntegerField(choices=Priority, default=Priority.NORMAL)
    misfire = models.CharField(
        max_length=16, choices=Misfire, default=Misfire.RUN_ONCE,
        help_text="What is run of due times that were missed while nothing ran schedules.",
    )  # fmt: skip
    misfire_limit = WholeNumber(default=100, help_text="Most missed due times that “run all” makes up for.")
    overlap = models.CharField(
        max_length=16, choices=Overlap, default=Overlap.SKIP,
        help_text="What becomes of a run that is due while the one before has not ended.",
    )  # fmt: skip
    jitter = WholeNumber(default=0, help_text="Most seconds after its due time that a run may start.")
    from_settings = models.JSONField(default=dict, editable=False, help_text="The values that code states.")
    retired_at = models.DateTimeField(null=True, editable=False, help_text="When no code stated it any more.")
    created_at = models.DateTimeField(editable=False)
    planned_for = models.CharField(
        max_length=500, blank=True, editable=False, help_text="The timing its next due time is of."
    )
    anchor_at = models.DateTimeField(
        null=True, editable=False, help_text="When that timing came into force: intervals count from there."
    )
    next_due_at = models.DateTimeField(null=True, editable=False)
    decided_at = models.DateTimeField(
        null=True, editable=False, help_text="The database's time when its next due time was worked out."
    )
    held_due_at = models.DateTimeField(
        null=True, editable=False, help_text="A due run that waits for the end of the one before."
    )
    awaits_end = models.BooleanField(
        default=False, editable=False, help_text="Its next due time follows the end of its run."
    )

    objects = ScheduleQuerySet.as_manager()

    class Meta:
        ordering = ("name",)
        permissions = (
            ("pause_schedule", "Can pause and resume schedules"),
            ("run_schedule", "Can run schedules now"),
        )
        constraints = (
            models.CheckConstraint(condition=Q(misfire__in=Misfire.values), name="schedule_misfire_is_known"),
            models.CheckConstraint(condition=Q(overlap__in=Overlap.values), name="schedule_overlap_is_known"),
            models.CheckConstraint(
                condition=Q(misfire_limit__gte=1, misfire_limit__lte=MAX_MADE_UP),
                name="schedule_misfire_limit_in_range",
            ),
            models.CheckConstraint(
                condition=Q(jitter__gte=0, jitter__lte=MAX_JITTER), name="schedule_jitter_in_range"
            ),
            models.CheckConstraint(
                condition=Q(priority__range=(min(Priority), max(Priority))),
                name="schedule_priority_has_a_name",
            ),
            models.CheckConstraint(
                condition=Q(next_due_at__isnull=True) | Q(anchor_at__isnull=False, decided_at__isnull=False),
                name="schedule_due_is_planned",
            ),
        )
        indexes = (
            models.Index(
                fields=("next_due_at",),
                condition=Q(next_due_at__isnull=False, retired_at__isnull=True),
                name="schedule_due",
            ),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def is_stated(self) -> bool:
        """Whether code states it; else a person made it."""
        return bool(self.from_settings)


class ScheduledRun(models.Model):
    """What became of one due time. The constraint on schedule and due time makes it one execution at most,
    whichever processes fire, and however often.

    `execution` has no constraint in the database: retention deletes executions and keeps this.
    """

    schedule = models.ForeignKey(Schedule, on_delete=models.CASCADE, related_name="runs", db_index=False)
    due_at = models.DateTimeField()
    until = models.DateTimeField(
        null=True, help_text="Of due times left out together: the last of them; `due_at` is the first."
    )
    times = WholeNumber(
        null=True, default=1, db_default=1,
        help_text="How many due times it stands for; empty: so many that nobody counted.",
    )  # fmt: skip
    decided_at = models.DateTimeField()
    outcome = models.CharField(max_length=16, choices=RunOutcome)
    reason = models.CharField(max_length=300, blank=True, help_text="Why it was not run.")
    requested_by = models.CharField(max_length=LONGEST_ACTOR, blank=True, help_text="Who ran it by hand.")
    execution = models.ForeignKey(
        Execution, on_delete=models.DO_NOTHING, null=True, db_constraint=False, db_index=False,
        related_name="+",
    )  # fmt: skip
    ended_at = models.DateTimeField(null=True, help_text="When its execution was done, failed or cancelled.")
    ended_as = models.CharField(max_length=16, blank=True, choices=State)

    class Meta:
        ordering = ("-due_at",)
        constraints = (
            models.UniqueConstraint(fields=("schedule", "due_at"), name="one_run_per_due_time"),
            models.CheckConstraint(
                condition=Q(outcome=RunOutcome.ENQUEUED, execution__isnull=False, reason="")
                | Q(
                    outcome__in=(RunOutcome.SKIPPED, RunOutcome.MISSED),
                    execution__isnull=True,
                    ended_at__isnull=True,
                )
                & ~Q(reason=""),
                name="run_is_enqueued_or_says_why",
            ),
        )
        indexes = (
            models.Index(
                fields=("schedule",),
                condition=Q(outcome="enqueued", ended_at__isnull=True),
                name="scheduled_run_open",
            ),
            models.Index(fields=("decided_at",), name="scheduled_run_age"),
            models.Index(
                fields=("schedule", "until"),
                condition=Q(outcome="skipped", until__isnull=False),
                name="scheduled_runs_together",
            ),
            models.Index(
                fields=("execution",),
                condition=Q(ended_as__in=("failed", "cancelled", "skipped")),
                name="scheduled_run_retriable",
            ),
        )

    def __str__(self) -> str:
        return f"{self.schedule_id}@{self.due_at:%Y-%m-%dT%H:%M:%S}"
