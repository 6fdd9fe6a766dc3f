"""Finds limits, queues, workers, batches, schedules and the like by any part of their name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Model, Q

from queuemgr.models import Batch, Limit, Queue, RetryPolicy, RouteLimit, Schedule, Webhook, Worker
from queuemgr.reporting.search.found import Found, search_provider


@search_provider("Limits", "queuemgr.view_limit")
def limits(text: str, at_most: int) -> Iterable[Found]:
    """Limits that are set, and names under which work waits without one of its own."""
    rows = _newest(Limit, Q(name__icontains=text), at_most)
    found = {row.name: Found(row.name, row.note, "queuemgr_limit_change", (row.pk,)) for row in rows}
    used = RouteLimit.objects.filter(name__icontains=text).order_by("name").values_list("name", flat=True)
    for name in used.distinct()[: at_most + 1]:
        listed = Found(name, "no limit of its own", "queuemgr_execution_changelist", (), {"limit": name})
        found.setdefault(name, listed)
    return found.values()


@search_provider("Workers", "queuemgr.view_worker")
def workers(text: str, at_most: int) -> Iterable[Found]:
    """The latest run of each, by its name or host."""
    latest: dict[str, Worker] = {}
    for row in Worker.objects.filter(Q(name__icontains=text) | Q(host__icontains=text))[: 20 * at_most]:
        latest.setdefault(row.name, row)
    return [
        Found(row.name, f"last heartbeat {row.seen_at:%Y-%m-%d %H:%M:%S} UTC", "queuemgr_worker_change",
              (row.pk,))
        for row in latest.values()
    ]  # fmt: skip


@search_provider("Batches", "queuemgr.view_batch")
def batches(text: str, at_most: int) -> Iterable[Found]:
    return _by_name(Batch, text, at_most)


@search_provider("Schedules", "queuemgr.view_schedule")
def schedules(text: str, at_most: int) -> Iterable[Found]:
    rows = _newest(Schedule, Q(name__icontains=text) | Q(flow__icontains=text), at_most)
    return [Found(row.name, row.flow, "queuemgr_schedule_change", (row.pk,)) for row in rows]


@search_provider("Queues", "queuemgr.view_queue")
def queues(text: str, at_most: int) -> Iterable[Found]:
    return _by_name(Queue, text, at_most)


@search_provider("Retry policies", "queuemgr.view_retrypolicy")
def retry_policies(text: str, at_most: int) -> Iterable[Found]:
    rows = _newest(RetryPolicy, Q(kind__icontains=text), at_most)
    return [Found(row.kind, "", "queuemgr_retrypolicy_change", (row.pk,)) for row in rows]


@search_provider("Webhooks", "queuemgr.view_webhook")
def webhooks(text: str, at_most: int) -> Iterable[Found]:
    """By name alone: an address may be a secret."""
    return _by_name(Webhook, text, at_most)


def _by_name(model: type[Model], text: str, at_most: int) -> Iterable[Found]:
    page = f"queuemgr_{model._meta.model_name}_change"
    rows = _newest(model, Q(name__icontains=text), at_most)
    return [Found(row.name, "", page, (row.pk,)) for row in rows]


def _newest(model: type[Model], condition: Q, at_most: int) -> Iterable[Any]:
    """Several times as many as are shown: the best of them are."""
    return model._default_manager.filter(condition).order_by("-pk")[: 4 * at_most]
