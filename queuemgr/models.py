"""The truth: executions, the leases they run under, the attempts they left, the limits they obey.

Fields, constraints, indexes and adjectives. Verbs live in modules named after them.
"""

from __future__ import annotations

import uuid
from datetime import date, datetime
from typing import Any, Self

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from queuemgr import flow as flows
from queuemgr.budget_day import zone
from queuemgr.errors import BadInput
from queuemgr.rate import parse_rate


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


NOT_TRIES = (Outcome.SNOOZED, Outcome.INTERRUPTED)
"""Endings that are nobody's failure: not counted as tries."""


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
    max_pending = models.PositiveIntegerField(
        default=0, help_text="Executions that may wait here; new ones are refused. 0: no cap."
    )
    stated_max_pending = models.PositiveIntegerField(default=0, editable=False)

    objects = PausableQuerySet.as_manager()

    class Meta:
        ordering = ("phase", "priority")

    def __str__(self) -> str:
        return self.name


class Limit(Pausable):
    """A rule every start under this name must pass: what people set. What is met is a `Gate`.

    Names: `fleet`, `phase:prep`, a key such as `host:arxiv.org:443` or `tenant:acme`, a token such as
    `cpu`, or a pattern such as `host:*` that gives each of its keys these figures where the key has no
    row of its own.
    """

    name = models.CharField(max_length=255, unique=True)
    max_running = models.PositiveIntegerField(
        default=0, help_text="Weight that may run at once under this limit; 0: no cap."
    )
    reserved_high = models.PositiveIntegerField(
        default=0, help_text="How much of it only high-priority work may take."
    )
    rate = models.CharField(
        max_length=64,
        blank=True,
        help_text="Starts over time: 1/3s, 50/s burst 100, 10000/h; empty: no limit.",
    )
    daily_budget = models.PositiveIntegerField(
        null=True, blank=True, help_text="Requests a day may cost; empty: none."
    )
    budget_zone = models.CharField(
        max_length=64,
        blank=True,
        help_text="IANA time zone the budget's day is kept in; empty: the SLUICE_BUDGET_ZONE knob.",
    )
    kept_for_high = models.PositiveSmallIntegerField(
        default=10,
        help_text="Percent of the day's budget, its last, that only high-priority work may spend "
        "(nothing of a budget below 100).",
    )
    kept_from_low = models.PositiveSmallIntegerField(
        default=0, help_text="Percent of the day's budget, its last, that low work may not spend."
    )
    share = models.PositiveIntegerField(
        default=1, help_text="Turns a tenant gets against another's one."
    )
    breaker_after = models.PositiveIntegerField(
        default=10,
        help_text="Failures to reach the service, one after another, that close the limit; 0: never.",
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
            models.CheckConstraint(
                condition=Q(kept_for_high__lte=100, kept_from_low__lte=100, share__gte=1),
                name="limit_percents_and_share",
                violation_error_message="Percents are 0 to 100, and a share is at least 1.",
            ),
        )

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Raise `ValidationError` for a rate or a time zone that cannot be read."""
        problems = {}
        for field, read in (("rate", parse_rate), ("budget_zone", zone)):
            try:
                if getattr(self, field):
                    read(getattr(self, field))
            except BadInput as error:
                problems[field] = str(error)
        if problems:
            raise ValidationError(problems)


class Gate(models.Model):
    """What workers met behind a limit: written by the fleet alone, edited by nobody.

    Apart from `Limit`, since the keys of a pattern have no row of their own, and since what the fleet
    writes many times a second must not meet what a person edits. Losing a row costs one probe.
    """

    name = models.CharField(max_length=255, unique=True)
    clock = models.FloatField(default=0, help_text="The rate's clock, Unix seconds (see rate.py).")
    closed_until = models.DateTimeField(null=True)
    because = models.CharField(max_length=200, blank=True)
    opening = models.PositiveIntegerField(
        default=0, help_text="How many may run while it reopens; 0: fully open."
    )
    failures = models.PositiveIntegerField(
        default=0, help_text="Failures to reach the service since one succeeded."
    )
    turn = models.FloatField(default=0, help_text="How far a tenant has come in taking turns.")

    def __str__(self) -> str:
        return self.name


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
    route = models.ForeignKey(Route, on_delete=models.PROTECT, related_name="+")
    limit_keys = models.CharField(max_length=600, blank=True)
    tokens = models.CharField(max_length=100, blank=True)
    cost = models.PositiveIntegerField()
    weight = models.PositiveIntegerField()
    retrying = models.BooleanField(default=False)
    rated = models.CharField(
        max_length=600, blank=True, help_text="Rates whose clocks it moves on when it begins."
    )
    spent = models.PositiveIntegerField(default=0, help_text="Requests it said it sent so far.")
    worker = models.ForeignKey(Worker, null=True, on_delete=models.PROTECT)
    due_at = models.DateTimeField()
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
    limit_keys = models.CharField(max_length=600, blank=True)
    tokens = models.CharField(max_length=100, blank=True)
    weight = models.PositiveIntegerField(default=1)
    cost = models.PositiveIntegerField()
    retrying = models.BooleanField(default=False, help_text="A try after a failure.")
    worker = models.CharField(max_length=150, blank=True)
    due_at = models.DateTimeField(null=True, help_text="Since when it waited.")
    leased_at = models.DateTimeField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(db_index=True)
    outcome = models.CharField(max_length=12, choices=Outcome)
    error_kind = models.CharField(max_length=32, blank=True)
    error_message = models.TextField(blank=True)

    class Meta:
        ordering = ("id",)
        indexes = (
            models.Index(fields=("id",), condition=Q(retrying=True), name="attempt_retries"),
        )

    def __str__(self) -> str:
        return f"{self.phase}/{self.step} {self.outcome}"


class DailyUsage(models.Model):
    """Requests spent on one day under one limit, settled as leases end.

    The day is that of the limit's own time zone, and of when the lease was given out.
    """

    day = models.DateField()
    limit = models.CharField(max_length=255, db_column="limit_name")
    spent = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering = ("-day", "limit")
        verbose_name_plural = "daily usage"
        constraints = (
            models.UniqueConstraint(fields=("day", "limit"), name="one_usage_per_day_and_limit"),
        )

    def __str__(self) -> str:
        return f"{self.day} {self.limit}: {self.spent}"

    @staticmethod
    def on(day: date) -> dict[str, int]:
        """Requests spent that day, by limit."""
        return dict(DailyUsage.objects.filter(day=day).values_list("limit", "spent"))


class RetryPolicy(models.Model):
    """How one kind of error is tried again; a row with a phase goes before the one without."""

    kind = models.CharField(max_length=32)
    phase = models.CharField(max_length=32, blank=True, help_text="Empty: every phase.")
    max_attempts = models.PositiveIntegerField(help_text="Tries in all, the first included.")
    base = models.FloatField(default=0, help_text="Seconds before the second try; doubles.")
    ceiling = models.FloatField(default=0, help_text="Longest wait, seconds.")
    jitter = models.FloatField(default=0, help_text="Seconds added at random, at most.")
    meaning = models.CharField(max_length=200, blank=True)
    from_settings = models.JSONField(default=dict, editable=False)

    class Meta:
        ordering = ("kind", "phase")
        verbose_name_plural = "retry policies"
        constraints = (
            models.UniqueConstraint(fields=("kind", "phase"), name="one_policy_per_kind_and_phase"),
            models.CheckConstraint(
                condition=Q(
                    max_attempts__gte=1, base__gte=0, ceiling__gte=F("base"), jitter__gte=0
                ),
                name="policy_waits_make_sense",
                violation_error_message="At least one try, waits of 0 or more, a ceiling not below the base.",
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} in {self.phase}" if self.phase else self.kind


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
