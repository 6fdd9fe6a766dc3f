"""Calls of which Celery is to be notified how they ended."""

from __future__ import annotations

from django.db import models

from queuemgr.base.column_sizes import MAX_FLOW_NAME


class CanvasCall(models.Model):
    """A call that is part of a chain, group or chord of Celery's, or has an id by which somebody asks its
    result backend: how the execution ends is to be stored there, and what follows it called. Kept for a day
    after that, so that a call that comes a second time is not reported again, and for as long as a person may
    retry the execution."""

    flow = models.CharField(max_length=MAX_FLOW_NAME)
    key = models.CharField(max_length=255)
    task_id = models.CharField(max_length=255)
    request = models.TextField(help_text="What follows it, as Celery's message would have said.")
    claimed_until = models.DateTimeField(
        null=True, blank=True, help_text="A process notifies Celery until then."
    )
    notified_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("flow", "key", "task_id"), name="one_row_per_canvas_call"),
        )
        indexes = (
            models.Index(fields=("id",), condition=models.Q(notified_at=None), name="canvas_call_pending"),
            models.Index(
                fields=("notified_at",), condition=~models.Q(notified_at=None), name="canvas_call_notified"
            ),
        )

    def __str__(self) -> str:
        return f"{self.flow}/{self.key}"
