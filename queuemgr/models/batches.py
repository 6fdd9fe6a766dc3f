"""A batch: executions that belong together, in an order."""

from __future__ import annotations

from django.db import models
from django.utils import timezone


class Batch(models.Model):
    """Executions enqueued as one, with progress and results in the order of their items.

    `fail_fast`: the first that fails for good cancels those not yet done. What is done, failed and
    waiting is counted from the members.
    """

    flow = models.CharField(max_length=32)
    name = models.CharField(max_length=255, unique=True)
    fail_fast = models.BooleanField(default=False)
    window = models.PositiveIntegerField(
        default=0,
        help_text="Members that may be under way past the oldest unfinished; 0: no bound.",
    )
    created_at = models.DateTimeField(default=timezone.now)
    closed_at = models.DateTimeField(null=True, blank=True, help_text="No more items will come.")
    cancelled_at = models.DateTimeField(null=True, blank=True)
    cancelled_by = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ("-id",)
        verbose_name_plural = "batches"

    def __str__(self) -> str:
        return self.name
