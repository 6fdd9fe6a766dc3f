"""What the options of Celery's `apply_async` mean here, and what to write instead of those that cannot."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import timezone

from queuemgr.base.errors import BadInput
from queuemgr.base.safe_text import excerpt
from queuemgr.flows.flow import HIGH, LOW, NORMAL, PRIORITIES
from queuemgr.tasks.definition import TaskDefinition
from queuemgr.tasks.enqueue_call import Placing

ABOUT_MESSAGES = frozenset({
    "add_to_parent", "compression", "connection", "content_encoding", "content_type", "delivery_mode",
    "exchange", "exchange_type", "group_index", "headers", "ignore_result", "mandatory", "parent_id",
    "producer", "publisher", "replaced_task_nesting", "reply_to", "retries", "retry", "retry_policy",
    "root_id", "routing_key", "serializer", "shadow", "stamped_headers", "task_type",
})  # fmt: skip
"""Options of the message Celery would have sent. A queued call is a row: they change nothing."""

INSTEAD: Mapping[str, str] = {
    "time_limit": "state time_limit where the task is declared: it holds for every call",
    "soft_time_limit": "state soft_time_limit where the task is declared: it holds for every call",
}
"""Options that cannot mean here what they mean to Celery, and what does."""


def placing_of(task: TaskDefinition, options: Mapping[str, Any], *, redis: bool) -> Placing:
    """How a call with these options is placed. With `redis` the priority 0 is the highest, else 9, as it is
    with the brokers Celery knows. Raises `BadInput` for an option that cannot be honoured."""
    given = {name: value for name, value in options.items() if value is not None and value != []}
    for name in given:
        if name in INSTEAD:
            raise BadInput(f"{task.name}: {name}= does not go with a queued task: {INSTEAD[name]}")
    _check_queue(task, given.pop("queue", None))
    now = timezone.now()
    placing = Placing(
        _rank(task, given.pop("priority", None), redis=redis),
        _moment("eta", given.pop("eta", None), now)
        or _moment("countdown", given.pop("countdown", None), now),
        _moment("expires", given.pop("expires", None), now),
        str(given.pop("task_id", "")),
    )
    if unknown := sorted(set(given) - ABOUT_MESSAGES):
        raise BadInput(f"{task.name}: {', '.join(unknown)} is no option of a queued task")
    return placing


def _check_queue(task: TaskDefinition, queue: Any) -> None:
    name = getattr(queue, "name", queue)
    if name is not None and str(name).partition(".")[0] != task.phase:
        raise BadInput(
            f"{task.name}: queue={name!r} does not go with a queued task; it waits in phase {task.phase!r}: "
            "state the phase where the task is declared (phase=…), and its priority in the call (priority=…)"
        )


def _rank(task: TaskDefinition, priority: Any, *, redis: bool) -> int | None:
    if priority is None:
        return None
    if isinstance(priority, str) and priority in PRIORITIES:
        return PRIORITIES[priority]
    if isinstance(priority, bool) or not isinstance(priority, int) or not 0 <= priority <= 9:
        raise BadInput(
            f"{task.name}: priority {excerpt(priority)} is not 0 to 9, nor one of {', '.join(PRIORITIES)}"
        )
    height = 9 - priority if redis else priority
    return HIGH if height > 6 else NORMAL if height > 3 else LOW


def _moment(name: str, given: Any, now: datetime) -> datetime | None:
    if given is None:
        return None
    if isinstance(given, datetime):
        return given if given.tzinfo else given.replace(tzinfo=UTC)
    if isinstance(given, str):
        return _moment(name, _parsed(name, given), now)
    try:
        return now + (given if isinstance(given, timedelta) else timedelta(seconds=float(given)))
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"{name}={excerpt(given)} is neither a time nor a number of seconds") from None


def _parsed(name: str, given: str) -> datetime:
    try:
        return datetime.fromisoformat(given)
    except ValueError:
        raise BadInput(f"{name}={excerpt(given)} is no ISO 8601 time, as 2026-11-30T06:00:00+00:00") from None
