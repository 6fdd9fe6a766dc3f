"""The audit log, and when each periodic job last ran."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from django.db import models
from django.utils import timezone

from queuemgr.base.column_sizes import LONGEST_ACTOR
from queuemgr.base.errors import AuditLogIsImmutable


class AuditQuerySet(models.QuerySet["AuditEntry"]):
    """Inserts and reads only; everything else is refused before the database triggers refuse it."""

    def update(self, **columns: Any) -> NoReturn:
        raise AuditLogIsImmutable

    def delete(self) -> NoReturn:
        raise AuditLogIsImmutable

    def bulk_update(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AuditLogIsImmutable

    def bulk_create(self, objs: Iterable[AuditEntry], *args: Any, **kwargs: Any) -> list[AuditEntry]:
        if kwargs.get("update_conflicts"):
            raise AuditLogIsImmutable
        return super().bulk_create(objs, *args, **kwargs)


class AuditEntry(models.Model):
    """A change made by a person: who, when, through what, the values before and after, and the reason.

    Rows are immutable: database triggers refuse updates and deletes (see the first migration).
    """

    at = models.DateTimeField(default=timezone.now, db_index=True)
    actor = models.CharField(max_length=LONGEST_ACTOR)
    source = models.CharField(max_length=32)
    action = models.CharField(max_length=32)
    target = models.CharField(max_length=500)
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)
    reason = models.CharField(max_length=200, blank=True)
    affected = models.PositiveIntegerField(default=1, db_default=1, help_text="Rows this change affected.")
    undoes = models.OneToOneField(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="undone_by"
    )
    action_id = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="The bulk action this change was part of."
    )

    objects = AuditQuerySet.as_manager()

    class Meta:
        db_table = "queuemgr_change"
        verbose_name_plural = "audit log"
        ordering = ("-id",)
        permissions = (("undo_auditentry", "Can undo changes"),)
        indexes = (
            # For searches by the start of a target: PostgreSQL needs this operator class for them.
            models.Index(fields=("target",), opclasses=("varchar_pattern_ops",), name="change_targets"),
            models.Index(fields=("actor", "id"), name="change_actors"),
            models.Index(fields=("action_id",), name="change_actions"),
        )

    def __str__(self) -> str:
        return f"{self.action} {self.target} by {self.actor}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Insert a new row; raises `AuditLogIsImmutable` for an existing one."""
        if not self._state.adding:
            raise AuditLogIsImmutable
        super().save(*args, **{**kwargs, "force_insert": True})

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AuditLogIsImmutable


class PeriodicJob(models.Model):
    """When a periodic job last ran. Whoever advances `ran_at` runs the job, so two beats do no harm."""

    name = models.CharField(max_length=32, unique=True)
    ran_at = models.DateTimeField()
    running_since = models.DateTimeField(null=True, help_text="Since when it runs; empty: it does not.")

    class Meta:
        db_table = "queuemgr_chore"

    def __str__(self) -> str:
        return self.name
