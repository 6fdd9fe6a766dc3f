"""The admin pages, one module each, registered on import."""

from __future__ import annotations

from django.contrib import admin

from queuemgr.web.admin import (
    attempts,
    audit_log,
    batches,
    bulk,
    dashboard,
    executions,
    limits,
    policies,
    queues,
    tokens,
    usage,
    workers,
)

__all__ = (
    "attempts",
    "audit_log",
    "batches",
    "bulk",
    "dashboard",
    "executions",
    "limits",
    "policies",
    "queues",
    "tokens",
    "usage",
    "workers",
)

admin.site.index_title = "Dashboard"
