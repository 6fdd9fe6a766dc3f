"""What was enqueued, and what was not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from queuemgr.lifecycle import enqueue_at_commit
from queuemgr.models import Execution
from queuemgr.tasks.definition import without_options

SHOWN = 10


def enqueued(task: Any) -> list[dict[str, Any]]:
    """The payloads of what was enqueued for this task or flow, oldest first: of a task, arguments by name.

    `task` is a function with `@queued`, a Celery task with `base=QueuedTask`, a flow, or the name of one.
    """
    enqueue_at_commit.flush()
    rows = Execution.objects.filter(flow=flow_of(task)).order_by("pk")
    return [without_options(payload) for payload in rows.values_list("payload", flat=True)]


def assert_enqueued(task: Any, *, times: int | None = None, **arguments: Any) -> None:
    """Fail unless a call with these arguments was enqueued, `times` times if that is given. Arguments that
    are not named may be anything."""
    found = enqueued(task)
    wanted = _stored(task, arguments)
    matching = [payload for payload in found if _holds(payload, wanted)]
    if (times is None and matching) or len(matching) == times:
        return
    said = "a call" if times is None else f"{times} calls"
    raise AssertionError(f"{said} of {flow_of(task)} with {wanted} expected; enqueued: {_listed(found)}")


def assert_not_enqueued(task: Any, **arguments: Any) -> None:
    """Fail if a call with these arguments was enqueued."""
    assert_enqueued(task, times=0, **arguments)


def flow_of(task: Any) -> str:
    """The name of the flow of a task, a Celery task or a flow."""
    return task if isinstance(task, str) else str(task.name)


def _stored(task: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as a payload holds them."""
    definition = getattr(task, "definition", None)
    return definition.arguments.stored(arguments) if definition else dict(arguments)


def _holds(payload: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(name in payload and payload[name] == value for name, value in wanted.items())


def _listed(payloads: list[dict[str, Any]]) -> str:
    shown = "; ".join(json.dumps(payload) for payload in payloads[:SHOWN])
    more = len(payloads) - SHOWN
    return (shown or "nothing") + (f"; and {more} more" if more > 0 else "")
