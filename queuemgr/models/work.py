"""Executions, leases and attempts."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, Self

from django.db import models
from django.db.models import Q
from django.utils import timezone

from queuemgr.base.column_sizes import LONGEST_ACTOR, MAX_FLOW_NAME
from queuemgr.base.meters import MAX_USES
from queuemgr.flows import flow as flows
from queuemgr.flows.unique import UniqueKey
from queuemgr.models.batches import Batch
from queuemgr.models.enums import FINAL, HELD, WITHOUT_KEY, Outcome, Priority, State, UniqueStates
from queuemgr.models.routes import Route
from queuemgr.models.workers import Worker

UNBOUNDED = ("payload", "context", "result")
"""Columns of an execution that may be large, to be left out where many rows are read."""


class ExecutionQuerySet(models.QuerySet["Execution"]):
    def waiting(self) -> Self:
        return self.filter(state=State.WAITING)

    def held(self) -> Self:
        return self.filter(state__in=HELD)

    def unfinished(self) -> Self:
        return self.exclude(state__in=FINAL)

    def failed(self) -> Self:
        return self.filter(state=State.FAILED)

    def holding(self, flow: str, unique_keys: Collection[str], now: datetime) -> Self:
        """Those because of which others with these unique keys are not enqueued."""
        return self.filter(flow=flow, unique_key__in=unique_keys).exclude(_no_longer_unique(now))

    def passed(self, flow: str, unique_keys: Collection[str], now: datetime) -> Self:
        """Those that still have one of these unique keys and hold it no longer: their window is over, or a
        worker of an earlier release, which knows no unique keys, moved them."""
        return self.filter(_no_longer_unique(now), flow=flow, unique_key__in=unique_keys)


def _no_longer_unique(now: datetime) -> Q:
    passed = Q(unique_until__lte=now)
    for states, ends in WITHOUT_KEY.items():
        passed |= Q(unique_states=states, state__in=ends)
    return passed


class Execution(models.Model):
    """One item's way through a flow: never lost, never finished twice."""

    flow = models.CharField(max_length=MAX_FLOW_NAME)
    key = models.CharField(max_length=255)
    phase = models.CharField(max_length=32)
    step = models.CharField(max_length=32)
    priority = models.SmallIntegerField(choices=Priority, default=Priority.NORMAL)
    state = models.CharField(max_length=12, choices=State, default=State.WAITING)
    resumed = models.BooleanField(default=False, help_text="Whether it has entered its phase before.")
    route = models.ForeignKey(Route, on_delete=models.PROTECT, null=True, db_index=False, related_name="+")
    run_after = models.DateTimeField(
        default=timezone.now,
        null=True,
        blank=True,
        help_text="It starts no earlier; empty: beyond the window of its batch.",
    )
    wait_reason = models.CharField(max_length=200, blank=True)
    payload = models.JSONField(default=dict)
    context = models.JSONField(default=dict)
    result = models.JSONField(null=True, blank=True, help_text="What its last step returned.")
    error_kind = models.CharField(max_length=32, blank=True)
    error_message = models.TextField(blank=True)
    error_fingerprint = models.CharField(
        max_length=16,
        blank=True,
        default="",
        db_default="",
        help_text="Equal for failures whose messages differ only in details.",
    )
    batch = models.ForeignKey(
        Batch, on_delete=models.PROTECT, null=True, blank=True, db_index=False,
        related_name="executions",
    )  # fmt: skip
    batch_seq = models.PositiveIntegerField(null=True, blank=True)
    traceparent = models.CharField(
        max_length=55,
        blank=True,
        default="",
        db_default="",
        help_text="The trace in which it was enqueued (W3C Trace Context).",
    )
    unknown_since = models.DateTimeField(
        null=True, blank=True, help_text="Since when workers it was offered to do not know its step."
    )
    # All three null, since adding a column with a default would rebuild the table on SQLite.
    unique_key = models.CharField(  # noqa: DJ001  # see above
        max_length=255, null=True, blank=True, help_text="While it is set, no other of its flow has it."
    )
    unique_states = models.SmallIntegerField(
        null=True, blank=True, choices=UniqueStates, help_text="In which states it keeps its unique key."
    )
    unique_until = models.DateTimeField(
        null=True, blank=True, help_text="When another may take its unique key; empty: as its states say."
    )
    created_at = models.DateTimeField(default=timezone.now)
    attempts_counted_since = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = ExecutionQuerySet.as_manager()

    unique: UniqueKey | None = None
    """Of one that is to be inserted: its unique key, and what becomes of it if another holds that."""
    unique_window: timedelta | None = None
    """Of one that is to be inserted: how long it holds its unique key at most."""

    class Meta:
        permissions = (
            ("view_payload", "Can read payloads and contexts"),
            ("edit_payload", "Can retry with an edited payload"),
            ("retry_execution", "Can retry executions"),
            ("cancel_execution", "Can cancel executions"),
            ("skip_execution", "Can skip executions"),
            ("prioritise_execution", "Can change priorities and times"),
        )
        constraints = (
            models.UniqueConstraint(fields=("flow", "key"), name="one_execution_per_key"),
            models.CheckConstraint(
                condition=Q(state__in=FINAL, finished_at__isnull=False)
                | Q(finished_at__isnull=True) & ~Q(state__in=FINAL),
                name="finished_at_says_final",
            ),
            models.CheckConstraint(
                condition=~Q(state=State.WAITING) | Q(route__isnull=False), name="waiting_has_a_route"
            ),
            models.CheckConstraint(
                condition=Q(run_after__isnull=False) | Q(batch__isnull=False),
                name="only_batch_members_wait_for_a_window",
            ),
            models.CheckConstraint(
                condition=Q(priority__range=(min(Priority), max(Priority))), name="priority_has_a_name"
            ),
            models.UniqueConstraint(
                fields=("batch", "batch_seq"),
                condition=Q(batch__isnull=False),
                name="one_execution_per_batch_seq",
            ),
            models.CheckConstraint(
                condition=Q(batch__isnull=True, batch_seq__isnull=True)
                | Q(batch__isnull=False, batch_seq__isnull=False),
                name="batch_has_a_seq",
            ),
            models.UniqueConstraint(
                fields=("flow", "unique_key"),
                condition=Q(unique_key__isnull=False),
                name="one_holder_per_unique_key",
            ),
        )
        indexes = (
            models.Index(
                fields=("route", "run_after", "id"), condition=Q(state=State.WAITING), name="execution_heads"
            ),
            models.Index(fields=("state", "phase", "flow"), name="execution_counts"),
            models.Index(
                fields=("state", "finished_at"),
                condition=Q(finished_at__isnull=False, batch__isnull=True),
                name="execution_ended",
            ),
            models.Index(fields=("error_kind", "id"), condition=~Q(error_kind=""), name="execution_errors"),
            models.Index(
                fields=("error_kind", "error_fingerprint", "id"),
                condition=Q(state=State.FAILED),
                name="execution_failures",
            ),
            models.Index(
                fields=("flow", "finished_at"),
                condition=Q(state=State.FAILED, batch__isnull=True),
                name="execution_failed_of_flow",
            ),
            models.Index(
                fields=("batch", "state", "batch_seq"),
                condition=Q(batch__isnull=False),
                name="execution_batches",
            ),
        )

    def __str__(self) -> str:
        return f"{self.flow}/{self.key}"

    @property
    def status(self) -> str:
        """The status shown to operators, as `prepping` or `prepped`."""
        return flows.operator_status(self.state, self.phase)

    def holds_unique_key(self, now: datetime) -> bool:
        """Whether no other of its flow is enqueued with its unique key."""
        if self.unique_key is None or self.state in WITHOUT_KEY.get(self.unique_states, ()):
            return False
        return self.unique_until is None or self.unique_until > now

    @property
    def inputs(self) -> dict[str, Any]:
        """The payload, and over it the context its steps returned: the input of the flow's rules."""
        return {**self.payload, **self.context}


class LeaseQuerySet(models.QuerySet["Lease"]):
    def expired(self, now: datetime) -> Self:
        return self.filter(expires_at__lt=now)

    def unstarted(self) -> Self:
        return self.filter(started_at__isnull=True)

    def started(self) -> Self:
        return self.filter(started_at__isnull=False)


class Lease(models.Model):
    """The right to run a step: who holds it and until when. Its id is the Celery task id and the fencing
    token: whoever no longer finds the row stores nothing."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    execution = models.OneToOneField(Execution, on_delete=models.PROTECT)
    phase = models.CharField(max_length=32)
    step = models.CharField(max_length=32)
    priority = models.SmallIntegerField(choices=Priority)
    route = models.ForeignKey(Route, on_delete=models.PROTECT, related_name="+")
    limit_keys = models.CharField(max_length=600, blank=True)
    resources = models.CharField(max_length=100, blank=True)
    cost = models.PositiveIntegerField()
    uses = models.CharField(
        max_length=MAX_USES, blank=True, default="", db_default="", help_text="What is reserved of meters."
    )
    weight = models.PositiveIntegerField()
    retrying = models.BooleanField(default=False)
    rate_debits = models.TextField(
        db_column="rated",
        blank=True,
        help_text="Clocks of rates and rolling allowances that it advances when it begins, by name.",
    )
    spent = models.PositiveIntegerField(default=0, help_text="Requests reported as sent so far.")
    spent_uses = models.CharField(
        max_length=MAX_USES,
        blank=True,
        default="",
        db_default="",
        help_text="What is reported as used so far of other meters.",
    )
    answered = models.BooleanField(
        default=False, db_default=False, help_text="Whether it said what its provider has left."
    )
    is_async = models.BooleanField(
        default=False, db_default=False, help_text="Whether it takes an async slot."
    )
    worker = models.ForeignKey(Worker, null=True, on_delete=models.PROTECT)
    due_at = models.DateTimeField()
    leased_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    renewed_at = models.DateTimeField(null=True, help_text="Empty: not since it was started.")
    expires_at = models.DateTimeField(db_index=True)
    cancel_requested_by = models.CharField(max_length=LONGEST_ACTOR, blank=True)

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
    """How a lease ended; inserted once, when it ends. A constraint allows one row per lease."""

    lease_id = models.UUIDField(unique=True)
    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="attempts")
    phase = models.CharField(max_length=32)
    step = models.CharField(max_length=32)
    priority = models.SmallIntegerField(choices=Priority)
    limit_keys = models.CharField(max_length=600, blank=True)
    resources = models.CharField(max_length=100, blank=True)
    weight = models.PositiveIntegerField(default=1)
    cost = models.PositiveIntegerField()
    # Null, since adding a column with a default would rebuild the table on SQLite.
    uses = models.CharField(  # noqa: DJ001  # see above
        max_length=MAX_USES, null=True, blank=True, help_text="What it used of other meters."
    )
    flow = models.CharField(  # noqa: DJ001  # null for the same reason
        max_length=MAX_FLOW_NAME, null=True, help_text="Its flow, where it used other meters."
    )
    retrying = models.BooleanField(default=False, help_text="Whether it is a retry after a failure.")
    worker = models.CharField(max_length=150, blank=True)
    due_at = models.DateTimeField(null=True, help_text="When it became due.")
    leased_at = models.DateTimeField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(db_index=True)
    outcome = models.CharField(max_length=12, choices=Outcome)
    error_kind = models.CharField(max_length=32, blank=True)
    error_message = models.TextField(blank=True)
    traceback = models.TextField(  # noqa: DJ001  # see above
        null=True, blank=True, help_text="Where an unexpected error was raised, with secrets masked."
    )
    log = models.TextField(  # noqa: DJ001  # see above
        null=True, blank=True, help_text="What its step logged last, if it failed, with secrets masked."
    )

    class Meta:
        ordering = ("id",)
        indexes = (
            models.Index(fields=("id",), condition=Q(retrying=True), name="attempt_retries"),
            models.Index(
                fields=("flow", "phase", "step", "id"), condition=Q(uses__gt=""), name="attempt_uses_of_step"
            ),
            models.Index(
                fields=("error_kind", "ended_at"), condition=~Q(error_kind=""), name="attempt_errors"
            ),
        )

    def __str__(self) -> str:
        return f"{self.phase}/{self.step} {self.outcome}"
