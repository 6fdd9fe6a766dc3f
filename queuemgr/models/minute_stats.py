"""What happened, rolled up by the minute: the board reads these, however many attempts there are."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Self

from django.db import models
from django.db.models import Q

from queuemgr.models.enums import Outcome, Priority

ALL_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""The minute under which all that was ever rolled up is added up."""

ANOMALY = "anomaly"
"""The outcome under which a thing that is no attempt is counted; `error_kind` says which."""


class MinuteStatsQuerySet(models.QuerySet["MinuteStats"]):
    def by_minute(self) -> Self:
        """The minutes, without the sums of all time."""
        return self.filter(minute__gt=ALL_TIME)

    def ever(self) -> Self:
        """The sums of all time, of minutes no longer kept too."""
        return self.filter(minute=ALL_TIME)

    def attempts_only(self) -> Self:
        return self.filter(~Q(outcome=ANOMALY))

    def anomalies(self) -> Self:
        return self.filter(outcome=ANOMALY)


class MinuteStats(models.Model):
    """The attempts of one phase, priority, outcome and kind of error that ended within one minute.

    `waited` and `ran` are histograms (`queuemgr.base.histogram`): how many fell into each bucket, the last
    without an upper end. Written for a minute that is over, from the attempts' rows. Beside them, at the
    minute `ALL_TIME`, stand the sums of all that was rolled up since the beginning, and under the outcome
    `ANOMALY` what is no attempt (`queuemgr.lifecycle.anomalies`).
    """

    minute = models.DateTimeField()
    phase = models.CharField(max_length=32)
    priority = models.SmallIntegerField(choices=Priority)
    outcome = models.CharField(max_length=12, choices=[*Outcome.choices, (ANOMALY, ANOMALY)])
    error_kind = models.CharField(max_length=32, blank=True)
    attempts = models.PositiveBigIntegerField()
    cost = models.PositiveBigIntegerField(default=0)
    waited = models.JSONField(default=list)
    ran = models.JSONField(default=list)

    objects = MinuteStatsQuerySet.as_manager()

    class Meta:
        db_table = "queuemgr_minute"
        verbose_name_plural = "minute stats"
        constraints = (
            models.UniqueConstraint(
                fields=("minute", "phase", "priority", "outcome", "error_kind"),
                name="one_row_per_minute_and_kind",
            ),
        )

    def __str__(self) -> str:
        return f"{self.minute:%Y-%m-%d %H:%M} {self.phase} {self.outcome}"
