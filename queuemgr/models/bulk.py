"""Bulk actions: one action on every execution that matches a filter, done in the background."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from queuemgr.base.column_sizes import LONGEST_ACTOR
from queuemgr.models.enums import ActionState
from queuemgr.models.whole_numbers import WholeNumber


class BulkActionQuerySet(models.QuerySet["BulkAction"]):
    def running(self) -> Self:
        return self.filter(state=ActionState.RUNNING)


class BulkAction(models.Model):
    """A filter, an action and its progress.

    It processes the executions that matched the filter at the preview, by ascending id up to `up_to`.
    `cursor` is the last id processed; it advances in the transaction that changed the rows, so the
    work of a killed worker is neither lost nor repeated.
    """

    verb = models.CharField(max_length=32)
    arguments = models.JSONField(default=dict)
    filters = models.JSONField(default=dict)
    state = models.CharField(max_length=12, choices=ActionState, default=ActionState.PREVIEWED, db_index=True)
    actor = models.CharField(max_length=LONGEST_ACTOR)
    previewed_by = models.CharField(
        max_length=LONGEST_ACTOR, blank=True, default="", db_default="",
        help_text="Who asked for it; `actor` is who started it.",
    )  # fmt: skip
    user_id = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="As `account`, where that is a number: for earlier releases."
    )
    account = models.CharField(
        max_length=255, blank=True, default="", db_default="",
        help_text="The primary key of the account that started it; empty: a command.",
    )  # fmt: skip
    token_id = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="The API token it was started with; empty: with none."
    )
    source = models.CharField(max_length=32)
    reason = models.CharField(max_length=200, blank=True)
    per_minute = WholeNumber(default=0, help_text="Most rows changed per minute; 0: no limit.")
    matched = models.PositiveIntegerField(help_text="Rows that matched the filter at the preview.")
    up_to = models.PositiveBigIntegerField(help_text="The last id it will process.")
    cursor = models.PositiveBigIntegerField(default=0)
    changed = models.PositiveIntegerField(default=0)
    skipped = models.PositiveIntegerField(
        default=0, help_text="Rows that had changed since the preview, and were left as they are."
    )
    failed = models.PositiveIntegerField(default=0)
    problem = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    due_at = models.DateTimeField(null=True, blank=True, help_text="When its rate allows the next row.")
    finished_at = models.DateTimeField(null=True, blank=True)
    stopped_by = models.CharField(max_length=LONGEST_ACTOR, blank=True)

    objects = BulkActionQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)
        permissions = (("stop_bulkaction", "Can stop bulk actions"),)
        constraints = (
            models.CheckConstraint(condition=Q(cursor__lte=F("up_to")), name="bulk_cursor_within_its_end"),
        )

    def __str__(self) -> str:
        return f"{self.verb_in_words} #{self.pk}"

    @property
    def verb_in_words(self) -> str:
        return self.verb.replace("_", " ")

    @property
    def passed(self) -> int:
        """The rows it is done with."""
        return self.changed + self.skipped + self.failed

    @property
    def share(self) -> float:
        """How much of it is done, 0 to 1."""
        return min(1.0, self.passed / self.matched) if self.matched else 0.0
