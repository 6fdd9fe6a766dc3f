"""The truth: executions, the leases they run under, the attempts they left, the limits they obey.

Fields, constraints, indexes and adjectives. Verbs live in modules named after them.
"""

from __future__ import annotations

import uuid
from datetime import date, datetime
from typing import Any, Self

from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from queuemgr import flow as flows


class State(models.TextChoices):
    """The life of an execution; `states.py` holds the legal moves."""

    WAITING = "waiting"
    LEASED = "leased"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


FINAL = (State.DONE, State.FAILED, State.SKIPPED, State.CANCELLED)
HELD = (State.LEASED, State.RUNNING)


class Outcome(models.TextChoices):
    """How one attempt ended."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    RETRIED = "retried", "failed, tried again"
    SNOOZED = "snoozed", "asked to wait"
    INTERRUPTED = "interrupted", "stopped by a shutdown"
    CANCELLED = "cancelled"
    LOST = "lost", "worker lost"


class Priority(models.IntegerChoices):
    HIGH = flows.HIGH, "high"
    NORMAL = flows.NORMAL, "normal"
    LOW = flows.LOW, "low"


class PausableQuerySet(models.QuerySet["Any"]):
    def paused(self, now: datetime) -> Self:
        still = Q(paused_until__isnull=True) | Q(paused_until__gt=now)
        return self.filter(still, paused_at__isnull=False)


class Pausable(models.Model):
    """Who stopped it, when, why, and until when."""

    paused_at = models.DateTimeField(null=True, blank=True, editable=False)
    paused_by = models.CharField(max_length=150, blank=True, editable=False)
    pause_reason = models.CharField(max_length=200, blank=True)
    paused_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True

    def is_paused(self, now: datetime) -> bool:
        return self.paused_at is not None and (self.paused_until is None or self.paused_until > now)

    def pause_sentence(self) -> str:
        return pause_sentence(self.paused_by, self.pause_reason, self.paused_until)


def pause_sentence(by: str, reason: str, until: datetime | None) -> str:
    """`paused by NAME: REASON, until TIME`, with what is known."""
    why = f": {reason}" if reason else ""
    end = f", until {until:%Y-%m-%d %H:%M} UTC" if until else ""
    return f"paused by {by or 'someone'}{why}{end}"


class Queue(Pausable):
    """A Celery queue of steps: one phase at one priority."""

    name = models.CharField(max_length=64, unique=True)
    phase = models.CharField(max_length=32)
    priority = models.SmallIntegerField(choices=Priority)

    objects = PausableQuerySet.as_manager()

    class Meta:
        ordering = ("phase", "priority")

    def __str__(self) -> str:
        return self.name


class Limit(Pausable):
    """A rule every start under this name must pass.

    Names: `fleet`, `phase:prep`, a key such as `host:arxiv.org:443`, or a pattern such as `host:*`
    that gives each of its keys these figures where the key has no row of its own.
    """

    name = models.CharField(max_length=255, unique=True)
    max_running = models.PositiveIntegerField(
        default=0, help_text="Slots that may run at once under this limit; 0: no cap."
    )
    reserved_high = models.PositiveIntegerField(
        default=0, help_text="Of these slots, how many only high-priority work may take."
    )
    daily_budget = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Requests a UTC day may cost (fleet and phases); empty: none.",
    )
    from_settings = models.JSONField(default=dict, editable=False)

    objects = PausableQuerySet.as_manager()

    class Meta:
        ordering = ("name",)
        constraints = (
            models.CheckConstraint(
                condition=Q(max_running=0)
                | Q(reserved_high__lt=F("max_running"))
                | Q(max_running=1),
                name="limit_reserve_leaves_room",
                violation_error_message="The reserve must be smaller than the limit it is part of.",
            ),
        )

    def __str__(self) -> str:
        return self.name


class Route(models.Model):
    """Waiting work that is interchangeable but for its age: the unit admission chooses from."""

    phase = models.CharField(max_length=32)
    priority = models.SmallIntegerField(choices=Priority)
    resumed = models.BooleanField()
    limit_key = models.CharField(max_length=255, blank=True)
    cost = models.PositiveIntegerField()
    weight = models.PositiveIntegerField()
    served_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("phase", "priority", "resumed", "limit_key", "cost", "weight"),
                name="route_is_unique",
            ),
        )

    def __str__(self) -> str:
        return f"{flows.queue_name(self.phase, self.priority)} {self.limit_key}".strip()


class ExecutionQuerySet(models.QuerySet["Execution"]):
    def waiting(self) -> Self:
        return self.filter(state=State.WAITING)

    def due(self, now: datetime) -> Self:
        return self.waiting().filter(run_after__lte=now)

    def in_turn(self) -> Self:
        return self.order_by("run_after", "pk")

    def held(self) -> Self:
        return self.filter(state__in=HELD)

    def unfinished(self) -> Self:
        return self.exclude(state__in=FINAL)

    def failed(self) -> Self:
        return self.filter(state=State.FAILED)


class Execution(models.Model):
    """One item on its way through a flow: never lost, never finished twice."""

    flow = models.CharField(max_length=32)
    key = models.CharField(max_length=255)
    phase = models.CharField(max_length=32)
    step = models.CharField(max_length=32)
    priority = models.SmallIntegerField(choices=Priority, default=Priority.NORMAL)
    state = models.CharField(max_length=12, choices=State, default=State.WAITING)
    resumed = models.BooleanField(default=False, help_text="Its phase was begun before.")
    route = models.ForeignKey(
        Route, on_delete=models.PROTECT, null=True, db_index=False, related_name="+"
    )
    run_after = models.DateTimeField(default=timezone.now)
    wait_reason = models.CharField(max_length=200, blank=True)
    payload = models.JSONField(default=dict)
    context = models.JSONField(default=dict)
    error_kind = models.CharField(max_length=32, blank=True)
    error_message = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    tries_from = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = ExecutionQuerySet.as_manager()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("flow", "key"), name="one_execution_per_key"),
            models.CheckConstraint(
                condition=Q(state__in=FINAL, finished_at__isnull=False)
                | Q(finished_at__isnull=True) & ~Q(state__in=FINAL),
                name="finished_at_says_final",
            ),
            models.CheckConstraint(
                condition=~Q(state=State.WAITING) | Q(route__isnull=False),
                name="waiting_has_a_route",
            ),
        )
        indexes = (
            models.Index(
                fields=("route", "run_after", "id"),
                condition=Q(state=State.WAITING),
                name="execution_heads",
            ),
            models.Index(fields=("state", "phase", "flow"), name="execution_counts"),
            models.Index(
                fields=("error_kind", "id"), condition=~Q(error_kind=""), name="execution_errors"
            ),
        )

    def __str__(self) -> str:
        return f"{self.flow}/{self.key}"

    @property
    def status(self) -> str:
        """The operator's word for where it stands."""
        return flows.operator_status(self.state, self.phase)

    @property
    def given(self) -> dict[str, Any]:
        """Payload and what its steps learnt, as the flow's rules read them."""
        return {**self.payload, **self.context}


class Worker(models.Model):
    """One run of a Celery worker: its slots, its queues and its last sign of life."""

    name = models.CharField(max_length=150)
    host = models.CharField(max_length=150)
    pid = models.PositiveIntegerField()
    queues = models.JSONField(default=list)
    slots = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField(db_index=True)
    draining_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-seen_at",)

    def __str__(self) -> str:
        return self.name


class LeaseQuerySet(models.QuerySet["Lease"]):
    def expired(self, now: datetime) -> Self:
        return self.filter(expires_at__lt=now)

    def unstarted(self) -> Self:
        return self.filter(started_at__isnull=True)

    def started(self) -> Self:
        return self.filter(started_at__isnull=False)


class Lease(models.Model):
    """A slot: which worker runs which step until when. Its id is the Celery task id and the fence."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    execution = models.OneToOneField(Execution, on_delete=models.PROTECT)
    phase = models.CharField(max_length=32)
    step = models.CharField(max_length=32)
    priority = models.SmallIntegerField(choices=Priority)
    limit_key = models.CharField(max_length=255, blank=True)
    cost = models.PositiveIntegerField()
    weight = models.PositiveIntegerField()
    worker = models.ForeignKey(Worker, null=True, on_delete=models.PROTECT)
    budget_day = models.DateField()
    leased_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(db_index=True)
    cancel_by = models.CharField(max_length=150, blank=True)

    objects = LeaseQuerySet.as_manager()

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(worker__isnull=True, started_at__isnull=True)
                | Q(worker__isnull=False, started_at__isnull=False),
                name="started_on_a_worker",
            ),
        )

    def __str__(self) -> str:
        return str(self.id)


class Attempt(models.Model):
    """What one lease came to; written once, when it ends. One row per lease, by constraint."""

    lease_id = models.UUIDField(unique=True)
    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="attempts")
    phase = models.CharField(max_length=32)
    step = models.CharField(max_length=32)
    priority = models.SmallIntegerField(choices=Priority)
    limit_key = models.CharField(max_length=255, blank=True)
    cost = models.PositiveIntegerField()
    worker = models.CharField(max_length=150, blank=True)
    leased_at = models.DateTimeField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(db_index=True)
    outcome = models.CharField(max_length=12, choices=Outcome)
    error_kind = models.CharField(max_length=32, blank=True)
    error_message = models.TextField(blank=True)

    class Meta:
        ordering = ("id",)

    def __str__(self) -> str:
        return f"{self.phase}/{self.step} {self.outcome}"


class DailyUsage(models.Model):
    """Requests spent on one UTC day in one phase, settled as leases end."""

    day = models.DateField()
    phase = models.CharField(max_length=32)
    spent = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering = ("-day", "phase")
        verbose_name_plural = "daily usage"
        constraints = (
            models.UniqueConstraint(fields=("day", "phase"), name="one_usage_per_day_and_phase"),
        )

    def __str__(self) -> str:
        return f"{self.day} {self.phase}: {self.spent}"

    @staticmethod
    def on(day: date) -> dict[str, int]:
        """Requests spent that day, by phase."""
        return dict(DailyUsage.objects.filter(day=day).values_list("phase", "spent"))


class Change(models.Model):
    """A change made by a person: who, when, through what, what before and after, why."""

    at = models.DateTimeField(default=timezone.now, db_index=True)
    actor = models.CharField(max_length=150)
    source = models.CharField(max_length=32)
    action = models.CharField(max_length=32)
    target = models.CharField(max_length=300)
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)
    reason = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.action} {self.target} by {self.actor}"


class Chore(models.Model):
    """When a periodic chore last ran: whoever advances it runs it, so two beats do no harm."""

    name = models.CharField(max_length=32, unique=True)
    ran_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name
