"""How long a person has the failures of a flow be kept."""

from __future__ import annotations

from django.db import models

from queuemgr.base.column_sizes import MAX_FLOW_NAME


class FlowRetention(models.Model):
    """In place of what code and settings say; a flow without a row is kept as they do."""

    flow = models.CharField(max_length=MAX_FLOW_NAME, unique=True)
    keep_failed_days = models.FloatField(help_text="Days that failed executions are kept; 0: for ever.")

    class Meta:
        ordering = ("flow",)
        constraints = (
            models.CheckConstraint(
                condition=models.Q(keep_failed_days__gte=0, keep_failed_days__lte=36_600),
                name="flow_retention_days_in_range",
            ),
        )

    def __str__(self) -> str:
        return self.flow
