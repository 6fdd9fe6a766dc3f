"""Finds executions by any part of their key, their id or a Celery task id, and by words of their error.

Keys have no trigram index: an execution is written some ten times on its way, and each time PostgreSQL would
write its trigrams anew, which made a move ten times as expensive (11 to 114 µs). Reading the index that makes
keys unique takes a tenth of a second for a million keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple
from uuid import UUID

from queuemgr.base import sql
from queuemgr.base.safe_text import one_line
from queuemgr.models import UNBOUNDED, Attempt, Execution, ExecutionQuerySet, Lease
from queuemgr.reporting.filtering import executions_matching, with_key
from queuemgr.reporting.search.found import Found, search_provider

PAGE = "queuemgr_execution_change"
LARGEST_ID = 2**63 - 1


class _Key(NamedTuple):
    flow: str
    key: str


@search_provider("Executions", "queuemgr.view_execution")
def executions(text: str, at_most: int) -> Iterable[Found]:
    """By id or key first, which need no search; then keys that begin with it, then those that contain it."""
    found: dict[int, Execution] = {}
    for rows in chain(_by_number(text), (with_key(text), executions_matching({"key_prefix": text}))):
        found |= {row.pk: row for row in rows.defer(*UNBOUNDED)[: at_most + 1]}
    if len(found) <= at_most:
        found |= {row.pk: row for row in _containing(text, at_most + 1)}
    return [Found(row.key, f"{row.flow}, {row.status}", PAGE, (row.pk,)) for row in found.values()]


def _by_number(text: str) -> Iterator[ExecutionQuerySet]:
    if text.isascii() and text.isdecimal() and int(text) <= LARGEST_ID:
        yield Execution.objects.filter(pk=int(text))
    try:
        task = UUID(text)
    except ValueError:
        return
    yield Execution.objects.filter(pk__in=Lease.objects.filter(pk=task).values("execution_id"))
    yield Execution.objects.filter(pk__in=Attempt.objects.filter(lease_id=task).values("execution_id"))


def _containing(text: str, at_most: int) -> list[Execution]:
    """Reads flows and keys alone, which one index has, and then the rows of those that match."""
    statement = f"SELECT flow, key FROM queuemgr_execution WHERE {sql.contains('key')} LIMIT %s"
    keys = set(sql.rows(_Key, statement, [sql.containing(text), at_most]))
    flows, names = {each.flow for each in keys}, {each.key for each in keys}
    rows = Execution.objects.filter(flow__in=flows, key__in=names).defer(*UNBOUNDED)
    return [row for row in rows if (row.flow, row.key) in keys]


@search_provider("Failures", "queuemgr.view_execution")
def failures(text: str, at_most: int) -> Iterable[Found]:
    """The newest whose message contains the text, and the list of all of them."""
    matching = executions_matching({"text": text}, bounded=True).defer(*UNBOUNDED).order_by("-pk")
    rows = list(matching[: at_most + 1])
    return [
        Found(one_line(row.error_message)[:300], f"{row.error_kind}, {row}", PAGE, (row.pk,)) for row in rows
    ]
