"""API tokens, and the stored responses of idempotent requests."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone


class ApiToken(models.Model):
    """An API token. Only its digest is stored; it acts within its scopes and its owner's permissions."""

    name = models.CharField(max_length=100, unique=True)
    digest = models.CharField(max_length=64, unique=True)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="api_tokens",
        db_constraint=False,  # accounts may be in another database: read them by prefetch_related
    )
    scopes = models.JSONField(default=list)
    rate = models.CharField(max_length=32, default="600/minute")
    counted_until = models.FloatField(
        default=0.0, help_text="The rate's clock (Unix seconds): advanced by each request."
    )
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("name",)
        verbose_name = "API token"

    def __str__(self) -> str:
        return self.name


class IdempotencyRecord(models.Model):
    """The response to a request with an idempotency key, returned again for the same request."""

    token = models.ForeignKey(ApiToken, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    request_digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField()
    body = models.JSONField()
    at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        db_table = "queuemgr_givenanswer"
        constraints = (models.UniqueConstraint(fields=("token", "key"), name="one_answer_per_key"),)

    def __str__(self) -> str:
        return self.key
