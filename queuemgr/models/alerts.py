"""Alerts: alarms of the dashboard that are sent out, what is sent of each, and what is silenced."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from django.db import models
from django.db.models import Q

from queuemgr.base.column_sizes import LONGEST_ACTOR
from queuemgr.models.webhooks import MAX_NAME
from queuemgr.models.whole_numbers import WholeNumber

MAX_CODE = 400


class NoticeEvent(models.TextChoices):
    """What a message says of its alarm."""

    FIRING = "firing"
    CHANGED = "changed"
    RESOLVED = "resolved"
    TEST = "test"


class AlertQuerySet(models.QuerySet["Alert"]):
    def standing(self) -> Self:
        return self.filter(resolved_at=None)


class Alert(models.Model):
    """One alarm from when it was first seen until it was gone. `reported` is what was last sent of it."""

    code = models.CharField(max_length=MAX_CODE, help_text="Which alarm: what it is of, and which one.")
    level = models.CharField(max_length=4)
    text = models.CharField(max_length=500)
    since = models.DateTimeField()
    seen_at = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True, blank=True)
    reported = models.CharField(max_length=500, blank=True, default="")
    changes = WholeNumber(default=0, help_text="How often something was sent of it.")

    objects = AlertQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)
        permissions = (("silence_alert", "Can silence alerts"), ("test_alert", "Can send tests of alerts"))
        constraints = (
            models.UniqueConstraint(
                fields=("code",), condition=Q(resolved_at=None), name="one_alert_of_each_alarm"
            ),
        )
        indexes = (models.Index(fields=("resolved_at",), name="resolved_alerts"),)

    def __str__(self) -> str:
        return self.code


class AlertNotice(models.Model):
    """A message about an alert to one destination. Whoever sets `claimed_until` sends it."""

    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, related_name="notices")
    number = WholeNumber(help_text="Which of the alert's changes it is about.")
    destination = models.CharField(max_length=MAX_NAME)
    event = models.CharField(max_length=10, choices=NoticeEvent)
    level = models.CharField(max_length=4)
    text = models.CharField(max_length=500)
    at = models.DateTimeField(help_text="When it was found.")
    due_at = models.DateTimeField(null=True, help_text="When it is sent, or sent again; empty: no more.")
    claimed_until = models.DateTimeField(null=True, blank=True)
    attempts = WholeNumber(default=0)
    sent_at = models.DateTimeField(null=True, blank=True)
    problem = models.CharField(max_length=300, blank=True, default="")

    class Meta:
        ordering = ("id",)
        constraints = (
            models.UniqueConstraint(
                fields=("alert", "number", "destination"), name="one_notice_of_each_change"
            ),
        )
        indexes = (models.Index(fields=("due_at",), name="due_notices"),)

    def __str__(self) -> str:
        return f"{self.event} {self.alert_id}.{self.number} to {self.destination}"


class AlertSilenceQuerySet(models.QuerySet["AlertSilence"]):
    def in_force(self, now: datetime) -> Self:
        return self.filter(until__gt=now)


class AlertSilence(models.Model):
    """Alarms of which nothing is sent until then: who wanted that, and why."""

    pattern = models.CharField(max_length=MAX_CODE, help_text="An alarm's code, * for any characters.")
    until = models.DateTimeField(db_index=True)
    by = models.CharField(max_length=LONGEST_ACTOR)
    reason = models.CharField(max_length=200)
    created_at = models.DateTimeField()

    objects = AlertSilenceQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.pattern} until {self.until:%Y-%m-%d %H:%M} UTC"
