"""The operator's pages: what waits and why, and the verbs of `controls` as buttons.

A file per page. Whatever a page says of its rows is read once for the page, never once a row.
"""

from __future__ import annotations

from django.contrib import admin

from queuemgr.web.admin import (
    attempts,
    batches,
    bulk,
    changes,
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
    "batches",
    "bulk",
    "changes",
    "dashboard",
    "executions",
    "limits",
    "policies",
    "queues",
    "tokens",
    "usage",
    "workers",
)

admin.site.index_title = "What waits, what runs, what stopped"
