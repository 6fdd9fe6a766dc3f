"""Batches: executions that are enqueued, followed and cancelled together."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone

from queuemgr.base.column_sizes import LONGEST_ACTOR, MAX_FLOW_NAME
from queuemgr.models.enums import Priority
from queuemgr.models.routes import Route


class Batch(models.Model):
    """A named set of executions of one flow, numbered in the order in which they were added (`batch_seq`).

    Its progress is counted from its executions, never stored. It completes when it is closed, all of them
    have ended, and the batches in it have completed; a decision stores that, with its callbacks, in one
    transaction (`lifecycle/batch_completion.py`).
    """

    name = models.CharField(max_length=150, unique=True)
    flow = models.CharField(max_length=MAX_FLOW_NAME)
    fail_fast = models.BooleanField(
        default=False, help_text="The first failure cancels every execution that has not ended."
    )
    window = models.PositiveIntegerField(
        default=0, help_text="How far after the first unfinished execution others may start; 0: any."
    )
    created_at = models.DateTimeField(default=timezone.now)
    created_by = models.CharField(max_length=LONGEST_ACTOR, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True, help_text="Since when no execution may be added.")
    cancelled_at = models.DateTimeField(null=True, blank=True)
    cancelled_because = models.CharField(max_length=200, blank=True)
    parent = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, blank=True, db_index=False, related_name="children",
        help_text="The batch that completes after this one.",
    )  # fmt: skip
    completed_at = models.DateTimeField(
        null=True, blank=True, help_text="Empty again while a member that was retried has not ended."
    )
    succeeded = models.BooleanField(
        null=True, blank=True, help_text="Whether all of it was done or skipped when it completed."
    )

    class Meta:
        ordering = ("-id",)
        verbose_name_plural = "batches"
        constraints = (
            models.CheckConstraint(
                condition=Q(cancelled_at__isnull=True) | Q(closed_at__isnull=False),
                name="cancelled_batch_is_closed",
            ),
        )
        indexes = (
            models.Index(
                fields=("parent", "completed_at"), condition=Q(parent__isnull=False), name="batch_children"
            ),
            models.Index(
                fields=("id",),
                condition=Q(closed_at__isnull=False, completed_at__isnull=True),
                name="batch_not_completed",
            ),
        )

    def __str__(self) -> str:
        return self.name


class BatchEvent(models.TextChoices):
    """What a batch may have a callback for."""

    COMPLETE = "on_complete"
    SUCCESS = "on_success"
    FAILURE = "on_failure"


class BatchCallback(models.Model):
    """An execution to be inserted when a batch completes: where it will wait was found out when it was
    declared, since the rules of its flow are not called under a lock."""

    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, db_index=False, related_name="callbacks")
    event = models.CharField(max_length=16, choices=BatchEvent)
    flow = models.CharField(max_length=MAX_FLOW_NAME)
    key = models.CharField(max_length=255)
    phase = models.CharField(max_length=32)
    step = models.CharField(max_length=32)
    priority = models.SmallIntegerField(choices=Priority, default=Priority.NORMAL)
    payload = models.JSONField(default=dict)
    route = models.ForeignKey(Route, on_delete=models.PROTECT, db_index=False, related_name="+")
    fired_at = models.DateTimeField(null=True, blank=True, help_text="When its execution was inserted.")

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("batch", "event"), name="one_callback_per_batch_event"),
            models.UniqueConstraint(fields=("flow", "key"), name="one_batch_per_callback"),
        )

    def __str__(self) -> str:
        return f"{self.event}: {self.flow}/{self.key}"
