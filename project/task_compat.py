"""`GET /task?priority=low|high` and `GET /task/{id}`: compatibility with a simpler scheduler's clients.

Off by default, since it changes state on GET and needs no token; then these paths do not exist. A task
is a probe, under the same limits as all other work, which takes `seconds` (10 by default), so that a load
test that judges priorities finds slots taken. `latency_ms`: from `scheduled_at` to `started_at`.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from queuemgr.base.config import queue_settings
from queuemgr.base.errors import QueueFull
from queuemgr.flows.flow import PRIORITIES, PRIORITY_NAMES
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Attempt, Execution, Lease, State
from queuemgr.web.api.problems import Problem, problem_of, problem_response

FLOW = "probe"
PREFIX = "task-"
ACCEPTED = ("low", "high")

NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)

SECONDS = 10.0
MAX_SECONDS = 3600.0
"""How long a task takes unless the request says otherwise, and at most."""

STATUSES: Mapping[str, str] = {
    State.WAITING: "queued",
    State.LEASED: "queued",
    State.RUNNING: "processing",
    State.DONE: "completed",
    State.SKIPPED: "completed",
    State.FAILED: "failed",
    State.CANCELLED: "failed",
}


@never_cache
@require_GET
def schedule(request: HttpRequest) -> HttpResponse:
    """Enqueue a task; returns its id."""
    if not queue_settings().task_routes:
        return _not_found(request)
    priority = request.GET.get("priority", "low")
    if priority not in ACCEPTED:
        return problem_response(request, Problem("invalid", "priority is low or high"))
    seconds = _seconds(request.GET.get("seconds"))
    if seconds is None:
        return problem_response(
            request, Problem("invalid", f"seconds is a number from 0 to {MAX_SECONDS:.0f}, such as 2.5")
        )
    task, here = uuid4(), socket.gethostname()
    payload = {"scheduled_by": here, "seconds": seconds}
    try:
        enqueue(FLOW, f"{PREFIX}{task}", payload, priority=PRIORITIES[priority])
    except QueueFull as full:
        return problem_response(request, problem_of(full))
    created = Execution.objects.get(flow=FLOW, key=f"{PREFIX}{task}")
    return JsonResponse(
        {
            "task_id": str(task),
            "status": "queued",
            "priority": priority,
            "worker": here,
            "scheduled_at": _iso(created.created_at),
        }
    )


def _seconds(text: str | None) -> float | None:
    """How long the task is to take; None for what is no such number."""
    if text is None:
        return SECONDS
    if not NUMBER.fullmatch(text):
        return None
    seconds = float(text)
    return seconds if seconds <= MAX_SECONDS else None


@never_cache
@require_GET
def status(request: HttpRequest, task_id: UUID) -> HttpResponse:
    """The status of a task."""
    if not queue_settings().task_routes:
        return _not_found(request)
    found = Execution.objects.filter(flow=FLOW, key=f"{PREFIX}{task_id}").first()
    if found is None:
        return problem_response(request, Problem("not-found", f"there is no task {task_id}"))
    return JsonResponse(as_dict(found))


def as_dict(task: Execution) -> dict[str, Any]:
    """`worker`: the one that runs or ran it, otherwise the host that enqueued it."""
    scheduled_by = str(task.payload.get("scheduled_by", ""))
    host, name, started = _run_of(task)
    latency = (started - task.created_at).total_seconds() * 1000 if started else None
    return {
        "task_id": task.key.removeprefix(PREFIX),
        "status": STATUSES[task.state],
        "priority": PRIORITY_NAMES[task.priority],
        "worker": name or scheduled_by,
        "scheduled_at": _iso(task.created_at),
        "scheduled_by": scheduled_by,
        "processed_by": name or None,
        "started_at": _iso(started),
        "completed_at": _iso(task.finished_at),
        "latency_ms": round(latency, 3) if latency is not None else None,
        "same_worker": host == scheduled_by if name else None,
    }


def _run_of(task: Execution) -> tuple[str, str, datetime | None]:
    """Host and worker of its current or last run, and when it started."""
    lease = Lease.objects.select_related("worker").filter(execution=task).first()
    if lease is not None and lease.worker is not None:
        return lease.worker.host, lease.worker.name, lease.started_at
    last = Attempt.objects.filter(execution=task).order_by("-pk").first()
    if last is None:
        return "", "", None
    return last.worker.rpartition("@")[2], last.worker, last.started_at


def _iso(time: datetime | None) -> str | None:
    return time.astimezone(UTC).isoformat(timespec="microseconds") if time else None


def _not_found(request: HttpRequest) -> HttpResponse:
    return problem_response(request, Problem("not-found", "no such path"))
