"""Enqueues a call of a task."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from queuemgr.flows.flow import NewExecution
from queuemgr.lifecycle import enqueue, enqueue_at_commit
from queuemgr.lifecycle.enqueue import check_horizon, check_rank, new_execution
from queuemgr.tasks import eager
from queuemgr.tasks.definition import EXPIRES, TaskDefinition
from queuemgr.tasks.handle import Handle, UniqueHandle


@dataclass(frozen=True)
class Placing:
    """How a call is placed: None is what its task states. Without a key it gets one of its own."""

    priority: int | None = None
    run_after: datetime | None = None
    expires: datetime | None = None
    key: str = ""


def enqueue_call(task: TaskDefinition, payload: Mapping[str, Any], placing: Placing) -> Handle[Any]:
    """Enqueue one call, whose arguments are the payload; with the transaction around it, if there is one.
    In Celery's eager mode it runs at once.

    Raises `BadInput`, `NeverFits` and `QueueFull`; in a transaction its commit raises the last.
    """
    if eager.is_on():
        intake, _ = intake_of(task, payload, placing), rank_for(task, placing)
        return eager.run(task, intake.payload, intake.key)
    return store_call(task, payload, placing)


def store_call(task: TaskDefinition, payload: Mapping[str, Any], placing: Placing) -> Handle[Any]:
    """As `enqueue_call`, in Celery's eager mode, too."""
    intake, priority = intake_of(task, payload, placing), rank_for(task, placing)
    pending = enqueue_at_commit.enqueue_at_commit(
        new_execution(task.name, intake, priority, placing.run_after)
    )
    if pending.new.row.unique and not pending.is_inserted:
        return UniqueHandle(pending, task.arguments.read_result)
    return handle_of(task, pending.key)


def enqueue_calls(
    task: TaskDefinition, payloads: Iterable[Mapping[str, Any]], placing: Placing
) -> list[Handle[Any]]:
    """Enqueue many calls, a few hundred to a statement. Raises as `enqueue_call`."""
    intakes = [intake_of(task, payload, placing) for payload in payloads]
    priority = rank_for(task, placing)
    if eager.is_on():
        return [eager.run(task, intake.payload, intake.key) for intake in intakes]
    done = enqueue.enqueue_many(task.name, intakes, priority=priority, run_after=placing.run_after)
    return [handle_of(task, done.instead.get(intake.key, intake.key)) for intake in intakes]


def handle_of(task: TaskDefinition, key: str) -> Handle[Any]:
    return Handle(task.name, key, task.arguments.read_result)


def rank_for(task: TaskDefinition, placing: Placing) -> int:
    """The priority of a call placed so. Raises `BadInput`, for its time, too."""
    if placing.run_after is not None:
        check_horizon("run_after", placing.run_after)
    rank = task.priority if placing.priority is None else placing.priority
    check_rank(rank)
    return rank


def intake_of(task: TaskDefinition, payload: Mapping[str, Any], placing: Placing) -> NewExecution:
    """The execution of a call of this task."""
    options = {EXPIRES: placing.expires.isoformat()} if placing.expires else {}
    return NewExecution(placing.key or _key(task, payload), {**payload, **options})


def _key(task: TaskDefinition, payload: Mapping[str, Any]) -> str:
    """The unique key of the arguments, or one that no other call has, in the order of time: neighbours in the
    index of keys are written together."""
    if task.unique_key:
        return task.unique_key.fill(task.arguments.with_defaults(payload))
    return f"{time.time_ns() // 1000:014x}-{secrets.token_hex(9)}"
