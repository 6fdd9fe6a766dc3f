"""What happened, rolled up by the minute: the board reads these, however many attempts there are."""

from __future__ import annotations

from django.db import models

from queuemgr.models.choices import Outcome, Priority


class Minute(models.Model):
    """The attempts of one phase, priority, outcome and kind of error that ended within one minute.

    `waited` and `ran` are histograms: how many fell into each bucket, the last without an upper end.
    Written once for a minute that is over, from the attempts' rows.
    """

    minute = models.DateTimeField()
    phase = models.CharField(max_length=32)
    priority = models.SmallIntegerField(choices=Priority)
    outcome = models.CharField(max_length=12, choices=Outcome)
    error_kind = models.CharField(max_length=32, blank=True)
    attempts = models.PositiveIntegerField()
    cost = models.PositiveBigIntegerField(default=0)
    waited = models.JSONField(default=list)
    ran = models.JSONField(default=list)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("minute", "phase", "priority", "outcome", "error_kind"),
                name="one_row_per_minute_and_kind",
            ),
        )

    def __str__(self) -> str:
        return f"{self.minute:%Y-%m-%d %H:%M} {self.phase} {self.outcome}"
