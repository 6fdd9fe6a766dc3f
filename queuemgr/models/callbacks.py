"""Callbacks of flows that fail, so that `doctor` and the dashboard can show them."""

from __future__ import annotations

from django.db import models

from queuemgr.base.column_sizes import MAX_FLOW_NAME


class CallbackFailure(models.Model):
    """How a callback of a flow failed last. Deleted once it works again, or a day after its last failure."""

    flow = models.CharField(max_length=MAX_FLOW_NAME)
    callback = models.CharField(max_length=32)
    problem = models.TextField()
    times = models.PositiveIntegerField(default=1, help_text="How often it failed since it last worked.")
    since = models.DateTimeField()
    last_at = models.DateTimeField()
    hung_at = models.DateTimeField(null=True, help_text="When it last did not end, and its process did.")

    class Meta:
        ordering = ("flow", "callback")
        constraints = (models.UniqueConstraint(fields=("flow", "callback"), name="one_row_per_callback"),)

    def __str__(self) -> str:
        """As `flow orders: backfill raised KeyError: 'host'`."""
        return f"flow {self.flow}: {self.callback} {self.problem}"
