"""Batches: executions that are enqueued, followed and cancelled together."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone

from queuemgr.base.column_sizes import LONGEST_ACTOR, MAX_FLOW_NAME


class Batch(models.Model):
    """A named set of executions of one flow, numbered in the order in which they were added (`batch_seq`).

    Its progress is counted from its executions, never stored.
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

    class Meta:
        ordering = ("-id",)
        verbose_name_plural = "batches"
        constraints = (
            models.CheckConstraint(
                condition=Q(cancelled_at__isnull=True) | Q(closed_at__isnull=False),
                name="cancelled_batch_is_closed",
            ),
        )

    def __str__(self) -> str:
        return self.name
