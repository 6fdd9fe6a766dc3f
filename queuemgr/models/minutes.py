"""What happened, rolled up by the minute: charts read these rows, never the attempts."""

from __future__ import annotations

from django.db import models

from queuemgr.models.choices import Outcome, Priority


class Minute(models.Model):
    """Attempts that ended in one minute, alike in phase, priority, outcome and kind of error.

    `waits` and `runs` are counts by the bounds of `queuemgr.histogram`, so that any span of minutes
    can be added up and its percentiles read.
    """

    minute = models.DateTimeField()
    phase = models.CharField(max_length=32)
    priority = models.SmallIntegerField(choices=Priority)
    outcome = models.CharField(max_length=12, choices=Outcome)
    error_kind = models.CharField(max_length=32, blank=True)
    attempts = models.PositiveIntegerField(default=0)
    cost = models.PositiveBigIntegerField(default=0)
    waits = models.JSONField(default=list)
    runs = models.JSONField(default=list)

    class Meta:
        ordering = ("-minute",)
        constraints = (
            models.UniqueConstraint(
                fields=("minute", "phase", "priority", "outcome", "error_kind"),
                name="one_row_per_minute_and_kind",
            ),
        )

    def __str__(self) -> str:
        return f"{self.minute:%Y-%m-%d %H:%M} {self.phase} {self.outcome}: {self.attempts}"
