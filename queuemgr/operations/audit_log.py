"""Searching and exporting the audit log: for the admin's list and the command."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from django.db.models import Max, Q, QuerySet

from queuemgr.base import sql
from queuemgr.base.csv_text import csv_line
from queuemgr.models import AuditEntry
from queuemgr.operations import schedules, user_model
from queuemgr.operations.api_tokens import MAKE_TOKEN, REVOKE_TOKEN
from queuemgr.operations.executions import EDIT_PAYLOAD
from queuemgr.operations.logins import FAILED
from queuemgr.operations.roles import RESET_ROLE
from queuemgr.operations.user_model import User
from queuemgr.operations.users import SET_PASSWORD

MAX_SEARCHED = 200_000
"""How many of the newest entries are searched for words in their reasons, which have no index."""

FIELDS = (
    "id", "at", "actor", "source", "action", "target", "before", "after", "reason", "affected",
    "undoes", "action_id",
)  # fmt: skip
"""The exported fields, in the order of columns."""


NEEDED: Mapping[str, str] = {
    EDIT_PAYLOAD: "queuemgr.view_payload",
    schedules.EDIT_PAYLOAD: "queuemgr.view_payload",
    **dict.fromkeys((MAKE_TOKEN, REVOKE_TOKEN), "queuemgr.view_apitoken"),
    **dict.fromkeys(("add group", "edit group", "delete group", RESET_ROLE), "auth.view_group"),
}
"""The permission to see what an entry is about, where it is more than that to see the audit log."""

OF_ACCOUNTS = ("add user", "edit user", "delete user", SET_PASSWORD, FAILED)
"""Entries for whose accounts one needs the permission to see those, whatever their model is called."""


def needed() -> Mapping[str, str]:
    """The permission to see the entries of each of these actions."""
    return {**NEEDED, **dict.fromkeys(OF_ACCOUNTS, user_model.view_permission())}


def visible_to(user: User, entries: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
    """These entries without those about payloads, tokens and accounts that the user may not see."""
    may = user_model.completed(user).has_perm
    hidden = [action for action, permission in needed().items() if not may(permission)]
    return entries.exclude(action__in=hidden) if hidden else entries


def with_words(words: str) -> QuerySet[AuditEntry]:
    """Entries among the newest `MAX_SEARCHED` whose reason contains these words, in either case."""
    newest = AuditEntry.objects.aggregate(newest=Max("pk"))["newest"] or 0
    return AuditEntry.objects.filter(pk__gt=newest - MAX_SEARCHED, reason__icontains=words)


def searched(changes: QuerySet[AuditEntry], term: str) -> QuerySet[AuditEntry]:
    """Those of these entries by this actor; else with a target that starts so; else with these words in the
    reason. Only one of these, since no index serves all three at once."""
    term = term.strip()
    if not term:
        return changes
    for condition in (Q(actor=term), sql.starts_with("target", term)):
        found = changes.filter(condition)
        if found.order_by().exists():
            return found
    return changes.filter(pk__in=with_words(term).values("pk"))


def in_words(values: dict[str, Any]) -> str:
    """`max_running 3, daily_budget none`; a pause is its sentence, and a lone state needs no name."""
    if "is" in values:
        return str(values["is"])
    if values.get("row", ...) is None:
        return "no row of its own"
    words = {name: value_in_words(value) for name, value in values.items() if name != "row"}
    if not words and "row" in values:
        words = {name: value_in_words(value) for name, value in values["row"].items()}
    if len(words) == 1 and {*words} <= {"state", "priority"}:
        return next(iter(words.values()))
    return ", ".join(f"{name} {word}" for name, word in words.items())


def value_in_words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value in (None, "") else str(value)


def as_dict(changes: QuerySet[AuditEntry]) -> Iterator[dict[str, Any]]:
    """The fields of each entry, read a thousand at a time."""
    yield from changes.values(*FIELDS).iterator(chunk_size=1000)


def as_csv(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Lines of CSV under a header. No cell is taken for a formula by a spreadsheet."""
    yield csv_line(FIELDS)
    for row in rows:
        yield csv_line(_cell(row[name]) for name in FIELDS)


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value
