"""What processes state of limits, retry policies and queues: the order of it, and what each worker states."""

from __future__ import annotations

from django.db import models

from queuemgr.models.workers import Worker


class Stated(models.Model):
    """Fields of a row whose values settings and code state: see `scheduling/settings_sync.py`."""

    statements = models.TextField(
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="Digests of the values stated so far, the newest last.",
    )
    stated_at = models.DateTimeField(
        null=True, editable=False, help_text="Since when the stated values in force are."
    )

    class Meta:
        abstract = True


class WorkerStatement(models.Model):
    """What a worker stated when it started: field values by name, of its limits, queues and retry policies.

    Beside its row, which is read and written all the time.
    """

    worker = models.OneToOneField(Worker, on_delete=models.CASCADE, related_name="statement")
    digest = models.CharField(max_length=16)
    values = models.JSONField(default=dict)

    def __str__(self) -> str:
        return self.digest
