"""Routes, on which executions wait, their limits, and the wakeups of parked routes."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone

from queuemgr.base.meters import MAX_USES
from queuemgr.flows import flow as flows
from queuemgr.models.enums import Priority


class Route(models.Model):
    """A class of waiting executions that differ only in age: the unit that admission chooses from.

    A route that cannot start is parked: on the limit that blocks it, until a time, or because nothing
    waits on it. Parked routes cost a dispatch nothing. Whatever changes the cause of the parking unparks
    them (`wakeups.py`).
    """

    phase = models.CharField(max_length=32)
    priority = models.SmallIntegerField(choices=Priority)
    resumed = models.BooleanField()
    retrying = models.BooleanField(default=False)
    limit_keys = models.CharField(max_length=600, blank=True)
    resources = models.CharField(max_length=100, blank=True)
    cost = models.PositiveIntegerField()
    uses = models.CharField(max_length=MAX_USES, blank=True, default="", db_default="")
    weight = models.PositiveIntegerField()
    is_async = models.BooleanField(
        default=False, db_default=False, help_text="Whether its step is for async slots."
    )
    tenant = models.CharField(max_length=255, blank=True)
    served_at = models.DateTimeField(default=timezone.now)
    head_at = models.DateTimeField(
        null=True, help_text="Lower bound of the due time of the oldest waiting execution."
    )
    parked_on = models.CharField(max_length=300, blank=True)
    parked_until = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=(
                    "phase", "priority", "resumed", "retrying", "limit_keys", "resources", "cost", "uses",
                    "weight", "is_async",
                ),
                name="route_is_unique",
            ),
        )  # fmt: skip
        indexes = (
            models.Index(
                fields=("phase", "priority", "resumed", "served_at"),
                condition=Q(parked_on=""),
                name="route_turns",
            ),
            models.Index(fields=("head_at",), condition=Q(parked_on=""), name="route_ages"),
            models.Index(fields=("parked_on",), condition=~Q(parked_on=""), name="route_parked_on"),
            models.Index(
                fields=("parked_until",), condition=Q(parked_until__isnull=False), name="route_parked_until"
            ),
        )

    def __str__(self) -> str:
        return f"{flows.queue_name(self.phase, self.priority)} {self.limit_keys}".strip()


class RouteLimit(models.Model):
    """One limit key of a route, so that usage can be counted for some keys without reading all routes."""

    route = models.ForeignKey(Route, on_delete=models.CASCADE, related_name="limits")
    name = models.CharField(max_length=255, db_index=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("route", "name"), name="one_row_per_route_and_limit"),)

    def __str__(self) -> str:
        return self.name


class Wakeup(models.Model):
    """Tells the next scheduling decision to unpark a route, or the routes parked on a limit.

    Written by transactions that do not hold the scheduler lock.
    """

    route_id = models.BigIntegerField(null=True)
    limit = models.CharField(max_length=300, blank=True, db_column="limit_name")

    def __str__(self) -> str:
        return self.limit or str(self.route_id)
