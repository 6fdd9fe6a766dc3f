"""Where work waits: routes, the limits they pass, and word of what may wake them."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone

from queuemgr.flows import flow as flows
from queuemgr.models.enums import Priority


class Route(models.Model):
    """Waiting work that is interchangeable but for its age: the unit admission chooses from.

    One that cannot start whatever else happens is parked: on the limit that stops it, until a time,
    or because nothing waits. Parked routes cost a dispatch nothing; whoever changes what they are
    parked on wakes them (`wakeups.py`).
    """

    phase = models.CharField(max_length=32)
    priority = models.SmallIntegerField(choices=Priority)
    resumed = models.BooleanField()
    retrying = models.BooleanField(default=False)
    limit_keys = models.CharField(max_length=600, blank=True)
    tokens = models.CharField(max_length=100, blank=True)
    cost = models.PositiveIntegerField()
    weight = models.PositiveIntegerField()
    tenant = models.CharField(max_length=255, blank=True)
    served_at = models.DateTimeField(default=timezone.now)
    head_at = models.DateTimeField(
        null=True, help_text="Its head fell due no earlier than this, when last looked at."
    )
    parked_on = models.CharField(max_length=300, blank=True)
    parked_until = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=(
                    "phase", "priority", "resumed", "retrying", "limit_keys", "tokens", "cost", "weight",
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
                fields=("parked_until",),
                condition=Q(parked_until__isnull=False),
                name="route_parked_until",
            ),
        )

    def __str__(self) -> str:
        return f"{flows.queue_name(self.phase, self.priority)} {self.limit_keys}".strip()


class RouteLimit(models.Model):
    """One limit a route passes by key: how use is counted for a few keys and not for all of them."""

    route = models.ForeignKey(Route, on_delete=models.CASCADE, related_name="limits")
    name = models.CharField(max_length=255, db_index=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("route", "name"), name="one_row_per_route_and_limit"),
        )

    def __str__(self) -> str:
        return self.name


class Wakeup(models.Model):
    """A note for whoever decides next: this route, or what is parked on this limit, may go on.

    Left in the transaction that changed something without holding the fleet's lock.
    """

    route_id = models.BigIntegerField(null=True)
    limit = models.CharField(max_length=300, blank=True, db_column="limit_name")

    def __str__(self) -> str:
        return self.limit or str(self.route_id)
