"""Webhooks: whom to tell that work of some flows has ended, and how it went."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from queuemgr.models.limits import Pausable, PausableQuerySet
from queuemgr.models.whole_numbers import WholeNumber

MAX_NAME = 64
MAX_URL = 1000


class WebhookEvent(models.TextChoices):
    """What a webhook may tell of: an execution, or a batch."""

    FINISHED = "finished", "done, or skipped"
    FAILED = "failed", "failed for good"
    CANCELLED = "cancelled"
    LOST = "lost", "lost with its worker"
    BATCH_COMPLETED = "batch_completed", "a batch completed"


class Webhook(Pausable):
    """An address that is notified of the ends of work. `lifecycle/webhook_events.py` enqueues the deliveries;
    what they are signed with is in a setting, under `secret_name`."""

    name = models.CharField(max_length=MAX_NAME, unique=True)
    url = models.CharField(max_length=MAX_URL)
    flows = models.CharField(
        max_length=500, default="*", help_text="Names of flows, or patterns such as “shop.*”; blanks between."
    )
    events = models.CharField(max_length=200, default=WebhookEvent.FAILED, help_text="With blanks between.")
    secret_name = models.CharField(
        max_length=MAX_NAME, blank=True, help_text="In SLUICE_WEBHOOK_SECRETS; empty: the webhook's name."
    )
    allow_private = models.BooleanField(
        default=False, help_text="Private and local addresses, and http, are allowed."
    )
    include_result = models.BooleanField(
        default=False, help_text="Send also what the work returned, if that is not large."
    )
    description = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(editable=False)
    failed_in_row = WholeNumber(
        default=0, editable=False, help_text="Deliveries that failed for good since one was accepted."
    )

    objects = PausableQuerySet.as_manager()

    class Meta:
        ordering = ("name",)
        permissions = (
            ("pause_webhook", "Can pause and resume webhooks"),
            ("test_webhook", "Can send a test to webhooks"),
        )
        constraints = (models.CheckConstraint(condition=~Q(name=""), name="webhook_has_a_name"),)

    def __str__(self) -> str:
        return self.name

    @property
    def secret(self) -> str:
        """The name of what its deliveries are signed with."""
        return self.secret_name or self.name
