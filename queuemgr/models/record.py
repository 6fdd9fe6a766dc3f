"""What people and beat did: changes with who and why, chores with when."""

from __future__ import annotations

from django.db import models
from django.utils import timezone


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
    affected = models.PositiveIntegerField(default=1, help_text="Rows this change met.")
    undoes = models.OneToOneField(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="undone_by"
    )
    action_id = models.PositiveBigIntegerField(
        null=True, blank=True, db_index=True, help_text="The bulk action it was part of."
    )

    class Meta:
        ordering = ("-id",)
        permissions = (("undo_change", "Can undo changes"),)

    def __str__(self) -> str:
        return f"{self.action} {self.target} by {self.actor}"


class Chore(models.Model):
    """When a periodic chore last ran: whoever advances it runs it, so two beats do no harm."""

    name = models.CharField(max_length=32, unique=True)
    ran_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name
