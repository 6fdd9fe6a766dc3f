"""Webhooks as commands, pages and the API show them: whom they tell of what, and how deliveries go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from queuemgr.base.redaction import masked
from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle.webhook_events import FLOW
from queuemgr.models import Execution, State, Webhook
from queuemgr.steptools.webhook_target import limit_of

LAST = 10
MOST_COUNTED = 1000
"""Deliveries in a state are counted up to so many."""

COUNTED = {"waiting": (State.WAITING, State.LEASED, State.RUNNING), "failed": (State.FAILED,)}


def listed(rows: Sequence[Webhook] | None = None) -> list[dict[str, Any]]:
    now = database_now()
    return [_fields(row, now) for row in (Webhook.objects.all() if rows is None else rows)]


def shown(row: Webhook) -> dict[str, Any]:
    """One webhook with its last deliveries."""
    return {**_fields(row, database_now()), "deliveries": last_deliveries(row)}


def _fields(row: Webhook, now: datetime) -> dict[str, Any]:
    return {
        "webhook": row.name, "url": masked(row.url), "flows": row.flows.split(), "events": row.events.split(),
        "secret": row.secret, "allow_private": row.allow_private, "include_result": row.include_result,
        "description": row.description, "limit": limit_of(row.url),
        "state": "paused" if row.is_paused(now) else "failing" if row.failed_in_row else "in force",
        "paused": row.pause_sentence() if row.is_paused(now) else None,
        "failed_in_row": row.failed_in_row, "created_at": row.created_at, **_counts(row),
    }  # fmt: skip


def _counts(row: Webhook) -> dict[str, int]:
    """Its deliveries that wait, and those that failed for good."""
    return {name: of(row).filter(state__in=states)[:MOST_COUNTED].count() for name, states in COUNTED.items()}


def of(row: Webhook) -> Any:
    """Its deliveries: their keys begin with its name, which has no colon."""
    return Execution.objects.filter(flow=FLOW, key__startswith=f"{row.name}:")


LOOKED_AT = 200_000
"""The last executions among which the last deliveries are looked for, from the newest back."""

_DELIVERY = ("pk", "key", "state", "error_kind", "error_message", "finished_at")


def last_deliveries(row: Webhook) -> list[Mapping[str, Any]]:
    newest = (
        of(row).order_by("-pk").values("key", "state", "error_kind", "error_message", "finished_at", "pk")
    )
    return [
        {
            "key": each["key"], "execution": each["pk"], "state": each["state"],
            "error": f"{each['error_kind']}: {each['error_message']}" if each["error_kind"] else None,
            "ended_at": each["finished_at"],
        }
        for each in newest[:LAST]
    ]  # fmt: skip
