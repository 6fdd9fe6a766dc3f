"""A bulk action: what a person asked to be done with every execution a filter meets."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from queuemgr.models.enums import ActionState


class BulkActionQuerySet(models.QuerySet["BulkAction"]):
    def running(self) -> Self:
        return self.filter(state=ActionState.RUNNING)


class BulkAction(models.Model):
    """A filter, a verb and how far it has come.

    It passes over the executions its filter met when it was previewed, by ascending id up to `up_to`;
    `cursor` is the last id passed and moves in the transaction that changed the rows, so a killed
    worker's work is neither lost nor done again.
    """

    verb = models.CharField(max_length=32)
    arguments = models.JSONField(default=dict)
    filters = models.JSONField(default=dict)
    state = models.CharField(
        max_length=12, choices=ActionState, default=ActionState.PREVIEWED, db_index=True
    )
    actor = models.CharField(max_length=150)
    source = models.CharField(max_length=32)
    reason = models.CharField(max_length=200, blank=True)
    per_minute = models.PositiveIntegerField(
        default=0, help_text="Rows it may change a minute; 0: as fast as it goes."
    )
    matched = models.PositiveIntegerField(help_text="Rows its filter met at the preview.")
    up_to = models.PositiveBigIntegerField(help_text="The last id it will look at.")
    cursor = models.PositiveBigIntegerField(default=0)
    changed = models.PositiveIntegerField(default=0)
    skipped = models.PositiveIntegerField(
        default=0, help_text="Rows that had changed since, and were left alone."
    )
    failed = models.PositiveIntegerField(default=0)
    problem = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    due_at = models.DateTimeField(
        null=True, blank=True, help_text="When its rate lets it change the next row."
    )
    finished_at = models.DateTimeField(null=True, blank=True)
    stopped_by = models.CharField(max_length=150, blank=True)

    objects = BulkActionQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)
        permissions = (("stop_bulkaction", "Can stop bulk actions"),)
        constraints = (
            models.CheckConstraint(
                condition=Q(cursor__lte=F("up_to")), name="bulk_cursor_within_its_end"
            ),
        )

    def __str__(self) -> str:
        return f"{self.verb} #{self.pk}"
