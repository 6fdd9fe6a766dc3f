"""Export of executions: one object each, in the order of their ids, a chunk at a time.

Each chunk starts after the last id of the one before, so memory is constant, no transaction stays open, and
nothing that existed throughout is left out or repeated, whatever changes meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any

from django.db.models import Count, F, Min, Q, QuerySet, Sum

from queuemgr.base.errors import UnknownFlow
from queuemgr.base.redaction import without_secrets_in
from queuemgr.flows import callbacks
from queuemgr.flows.callbacks import CallbackFailed
from queuemgr.flows.flow import PRIORITY_NAMES, get_flow
from queuemgr.models import NOT_COUNTED_AS_ATTEMPT, UNBOUNDED, Attempt, Execution
from queuemgr.reporting.filtering import executions_matching

CHUNK = 500
"""Executions in memory at once, with the data of their flow."""


def chosen(
    flow: str | None = None,
    states: Sequence[str] = (),
    error_kind: str | None = None,
    since: datetime | None = None,
) -> QuerySet[Execution]:
    """The selected executions; `since`: enqueued or finished at that time or later.

    Raises `UnknownFlow` for a flow that is neither registered nor has executions.
    """
    if flow and not Execution.objects.filter(flow=flow).exists():
        get_flow(flow)
    filters = {"flow": flow, "error_kind": error_kind}
    rows = executions_matching({name: value for name, value in filters.items() if value})
    if states:
        rows = rows.filter(state__in=states)
    if since:
        rows = rows.filter(Q(created_at__gte=since) | Q(finished_at__gte=since))
    return rows


def exported(rows: QuerySet[Execution]) -> Iterator[dict[str, Any]]:
    """Each execution as plain data with stable names; `item` is the data its flow has of it."""
    after = 0
    while some := list(rows.defer(*UNBOUNDED).filter(pk__gt=after).order_by("pk")[:CHUNK]):
        after = some[-1].pk
        attempts, items = _attempts(some), _items(some)
        for execution in some:
            item = items.get((execution.flow, execution.key), {})
            yield {**_columns(execution), **attempts.get(execution.pk, NO_ATTEMPT), "item": item}


def _columns(execution: Execution) -> dict[str, Any]:
    return {
        "flow": execution.flow,
        "key": execution.key,
        "status": execution.status,
        "state": execution.state,
        "phase": execution.phase,
        "step": execution.step,
        "priority": PRIORITY_NAMES[execution.priority],
        "error_kind": execution.error_kind,
        "error": execution.error_message,
        "created": execution.created_at,
        "finished": execution.finished_at,
    }


NO_ATTEMPT: Mapping[str, Any] = {"tries": 0, "requests": 0, "worked_seconds": 0.0, "begun": None}


def _attempts(some: Sequence[Execution]) -> dict[int, Mapping[str, Any]]:
    """By execution: attempts (not counting interrupted and snoozed ones), requests charged, seconds its steps
    ran, and when the first started."""
    attempts = Attempt.objects.filter(execution__in=[execution.pk for execution in some]).order_by()
    totals: Iterable[Any] = attempts.values("execution_id").annotate(
        tries=Count("pk", filter=~Q(outcome__in=NOT_COUNTED_AS_ATTEMPT)),
        requests=Sum("cost"),
        worked_seconds=Sum(F("ended_at") - F("started_at")),
        begun=Min("started_at"),
    )
    return {
        row.pop("execution_id"): row | {"worked_seconds": round(row["worked_seconds"].total_seconds(), 3)}
        for row in totals
    }


def _items(some: Sequence[Execution]) -> dict[tuple[str, str], Mapping[str, Any]]:
    by_flow = groupby(sorted(some, key=attrgetter("flow")), key=attrgetter("flow"))
    return {
        (flow, key): item
        for flow, group in by_flow
        for key, item in flow_data(flow, [execution.key for execution in group]).items()
    }


def flow_data(flow: str, keys: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
    """What a flow has stored of these keys, without secrets; nothing if this deployment has no such flow.
    If its callback fails, each has the problem as its data."""
    try:
        stored = callbacks.export(get_flow(flow), list(keys)) if keys else {}
    except UnknownFlow:
        return {}
    except CallbackFailed as failure:
        return {key: {"problem": str(failure)} for key in keys}
    return {key: without_secrets_in(item) for key, item in stored.items()}
