"""Bulk actions: one verb over everything a filter matches, done in the background."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.utils import timezone


class BulkState(models.TextChoices):
    """The life of a bulk action; what a person saw in the preview is what runs."""

    PREVIEWED = "previewed"
    RUNNING = "running"
    STOPPED = "stopped"
    DONE = "done"


class BulkAction(models.Model):
    """A verb, a filter, who and why; and how far it is, in the order of the executions' ids."""

    verb = models.CharField(max_length=32)
    arguments = models.JSONField(default=dict, blank=True)
    filters = models.JSONField(default=dict)
    state = models.CharField(max_length=12, choices=BulkState, default=BulkState.PREVIEWED)
    actor = models.CharField(max_length=150)
    source = models.CharField(max_length=32)
    reason = models.CharField(max_length=200, blank=True)
    per_minute = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Executions a minute at the most; empty: as fast as it goes.",
    )
    matched = models.PositiveBigIntegerField(help_text="What the preview counted.")
    up_to = models.BigIntegerField(help_text="The last execution there was at the preview.")
    cursor = models.BigIntegerField(default=0, help_text="The last execution looked at.")
    changed = models.PositiveBigIntegerField(default=0)
    skipped = models.PositiveBigIntegerField(default=0, help_text="Had changed in the meantime.")
    failed = models.PositiveBigIntegerField(default=0)
    problem = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    stopped_by = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.CheckConstraint(
                condition=Q(cursor__lte=F("up_to")), name="bulk_ends_where_seen"
            ),
        )

    def __str__(self) -> str:
        return f"{self.verb} {self.matched} by {self.actor}"
