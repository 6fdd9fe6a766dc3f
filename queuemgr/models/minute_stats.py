"""Statistics of ended attempts per minute, from which the dashboard reads."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Self

from django.db import models
from django.db.models import Q

from queuemgr.models.enums import Outcome, Priority

ALL_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""The `minute` of the rows that hold the sums since the beginning."""

ANOMALY = "anomaly"
"""The `outcome` of rows that count something other than attempts; `error_kind` says what."""


class MinuteStatsQuerySet(models.QuerySet["MinuteStats"]):
    def by_minute(self) -> Self:
        """The rows of minutes, without the sums of all time."""
        return self.filter(minute__gt=ALL_TIME)

    def all_time(self) -> Self:
        """The sums of all time, which include minutes that were deleted."""
        return self.filter(minute=ALL_TIME)

    def attempts_only(self) -> Self:
        return self.filter(~Q(outcome=ANOMALY))


class MinuteStats(models.Model):
    """The attempts of one phase, priority, outcome and error kind that ended within one minute.

    `waited` and `ran` are histograms of seconds (`queuemgr.base.histogram`), `used` amounts by meter, without
    requests, which are the `cost`; null where a release counted that knew of none. Rows are written once the
    minute is over, from the attempts. Rows with the minute `ALL_TIME` hold the sums since the beginning;
    rows with the outcome `ANOMALY` count other events (`queuemgr.lifecycle.anomalies`).
    """

    minute = models.DateTimeField()
    phase = models.CharField(max_length=32)
    priority = models.SmallIntegerField(choices=Priority)
    outcome = models.CharField(max_length=12, choices=[*Outcome.choices, (ANOMALY, ANOMALY)])
    error_kind = models.CharField(max_length=32, blank=True)
    attempts = models.PositiveBigIntegerField()
    cost = models.PositiveBigIntegerField(default=0)
    used = models.JSONField(null=True)
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
