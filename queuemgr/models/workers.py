"""Workers: one run of each, which of them are live, and which take no new work."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple, Self

from django.db import models

from queuemgr.base.column_sizes import LONGEST_ACTOR
from queuemgr.base.config import queue_settings
from queuemgr.base.time_text import moment_text


class LiveSpan(NamedTuple):
    """A worker is live if its last heartbeat is after `since` and before `until`: three were not missed.

    It has an end, since a heartbeat from the future was written before the clock was set back, and a
    worker that died then would count as live until its time comes.
    """

    since: datetime
    until: datetime

    def __contains__(self, seen_at: object) -> bool:
        return isinstance(seen_at, datetime) and self.since < seen_at < self.until


def live_span(now: datetime) -> LiveSpan:
    """When a worker that is live now had its last heartbeat."""
    missed = timedelta(seconds=3 * queue_settings().worker_heartbeat_seconds)
    return LiveSpan(now - missed, now + missed)


class WorkerDrain(models.Model):
    """A person's order: no worker of this name takes new work until it is resumed. What runs continues."""

    name = models.CharField(max_length=150, unique=True)
    drained_at = models.DateTimeField()
    drained_by = models.CharField(max_length=LONGEST_ACTOR)
    drain_reason = models.CharField(max_length=200, blank=True)

    def __str__(self) -> str:
        return self.name

    @property
    def sentence(self) -> str:
        """`drained by ann since 2026-11-28 06:00 UTC: new disk`."""
        reason = f": {self.drain_reason}" if self.drain_reason else ""
        return f"drained by {self.drained_by} since {moment_text(self.drained_at)}{reason}"


class WorkerQuerySet(models.QuerySet["Worker"]):
    def live(self, now: datetime) -> Self:
        span = live_span(now)
        return self.filter(seen_at__gt=span.since, seen_at__lt=span.until)

    def available(self, now: datetime) -> Self:
        """Those that take work: running, and not drained."""
        return self.running(now).exclude(name__in=WorkerDrain.objects.values("name"))

    def running(self, now: datetime) -> Self:
        """Those that are alive and not shutting down; a drained one is running."""
        return self.live(now).filter(draining_at=None)


class Worker(models.Model):
    """One run of a Celery worker: its slots, its queues and its last heartbeat (`seen_at`)."""

    name = models.CharField(max_length=150)
    host = models.CharField(max_length=150)
    pid = models.PositiveIntegerField()
    boot_id = models.CharField(
        max_length=36, blank=True, default="", db_default="", help_text="Which start of its machine it is in."
    )
    pid_namespace = models.BigIntegerField(
        default=0, db_default=0, help_text="Which PID namespace its pid is of."
    )
    process_started = models.BigIntegerField(
        default=0, db_default=0, help_text="When its process started, in the system's unit; 0: unknown."
    )
    queues = models.JSONField(default=list)
    broker = models.CharField(
        max_length=200, blank=True, default="", db_default="",
        help_text="Where it takes messages from, without the password.",
    )  # fmt: skip
    slots = models.PositiveIntegerField()
    async_slots = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Coroutines it runs at once, beside its slots."
    )
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField(db_index=True)
    draining_at = models.DateTimeField(null=True, blank=True, help_text="When it began to shut down.")
    gone_since = models.DateTimeField(
        null=True, blank=True, help_text="When it was first seen to be gone; its next heartbeat clears it."
    )

    objects = WorkerQuerySet.as_manager()

    class Meta:
        ordering = ("-seen_at",)
        permissions = (("drain_worker", "Can drain and resume workers"),)

    def __str__(self) -> str:
        return self.name
