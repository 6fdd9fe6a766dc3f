"""The record of changes, found and told: for the admin's list, the command and the files of both."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from io import StringIO
from typing import Any

from django.db.models import Max, Q, QuerySet

from queuemgr.base import sql
from queuemgr.models import AuditEntry

READ_THROUGH = 200_000
"""How many of the newest changes are read for words in their reasons, which no index finds."""

FIELDS = (
    "id", "at", "actor", "source", "action", "target", "before", "after", "reason", "affected",
    "undoes", "action_id",
)  # fmt: skip
"""What is told of a change, in the order of a file's columns."""


def with_words(words: str) -> QuerySet[AuditEntry]:
    """Those among the newest `READ_THROUGH` whose reason holds these words, in either case."""
    newest = AuditEntry.objects.aggregate(newest=Max("pk"))["newest"] or 0
    return AuditEntry.objects.filter(pk__gt=newest - READ_THROUGH, reason__icontains=words)


def searched(changes: QuerySet[AuditEntry], term: str) -> QuerySet[AuditEntry]:
    """Those of the person called so; else of a target that begins so; else with these words in the
    reason. One of them, since no index serves all three at once."""
    term = term.strip()
    if not term:
        return changes
    for found in (Q(actor=term), sql.starts_with("target", term)):
        if AuditEntry.objects.filter(found).order_by().exists():
            return changes.filter(found)
    return changes.filter(pk__in=with_words(term).values("pk"))


def in_words(values: dict[str, Any]) -> str:
    """`max_running 3, daily_budget none`; a pause is its sentence, and a lone state needs no name."""
    if "is" in values:
        return str(values["is"])
    if values.get("row", ...) is None:
        return "no row of its own"
    words = {name: _word(value) for name, value in values.items() if name != "row"}
    if not words and "row" in values:
        words = {name: _word(value) for name, value in values["row"].items()}
    if len(words) == 1 and {*words} <= {"state", "priority"}:
        return next(iter(words.values()))
    return ", ".join(f"{name} {word}" for name, word in words.items())


def _word(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value in (None, "") else str(value)


def as_dict(changes: QuerySet[AuditEntry]) -> Iterator[dict[str, Any]]:
    """What there is to tell of each, read a thousand at a time."""
    columns = [name if name != "undoes" else "undoes_id" for name in FIELDS]
    for row in changes.values_list(*columns).iterator(chunk_size=1000):
        yield dict(zip(FIELDS, row, strict=True))


STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def as_csv(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Lines of CSV under a head. No cell is a formula to a program that opens the file."""
    yield _line(FIELDS)
    for row in rows:
        yield _line([_cell(row[name]) for name in FIELDS])


def _line(cells: Iterable[Any]) -> str:
    written = StringIO()
    csv.writer(written).writerow(cells)
    return written.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value
    if isinstance(text, str) and text.startswith(STARTS_A_FORMULA):
        return f"'{text}"
    return text
