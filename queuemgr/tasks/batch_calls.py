"""Opens batches: of executions of any flow, or of the calls of a task for each item of an iterable."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, runtime_checkable

from celery import Task
from celery.canvas import Signature

from queuemgr.base.errors import BadInput
from queuemgr.base.safe_text import excerpt
from queuemgr.flows.call import Call
from queuemgr.flows.flow import NewExecution, get_flow
from queuemgr.lifecycle.enqueue import ROWS_PER_STATEMENT
from queuemgr.models import Batch, BatchEvent
from queuemgr.operations import batches
from queuemgr.operations.batches import MAX_NAME
from queuemgr.operations.controls import Actor
from queuemgr.tasks import eager
from queuemgr.tasks.batch_handle import PROGRAM, BatchHandle, batch_called_by, completed, member_batch
from queuemgr.tasks.celery_options import placing_of
from queuemgr.tasks.celery_results import FOLLOWS
from queuemgr.tasks.definition import TaskDefinition, definition_of
from queuemgr.tasks.eager_batch import run_batch
from queuemgr.tasks.enqueue_call import Placing, intake_of, rank_for

Callback = Any
"""What a batch calls when it completes: a function made by `@queued`, `function.call(…)`, a Celery task with
base `QueuedTask` or a signature of one, or a `Call` of any flow."""


@runtime_checkable
class Calls(Protocol):
    """A function made by `@queued`."""

    def call(self) -> Call: ...


@dataclass(frozen=True)
class BatchRules:
    """How a batch of calls is opened; without a name it gets one of its own."""

    name: str = ""
    window: int = 0
    fail_fast: bool = False
    on_complete: Callback = None
    on_success: Callback = None
    on_failure: Callback = None
    parent: BatchHandle[Any] | None = None
    allowances: str = ""

    def callbacks(self) -> dict[str, Call]:
        """Raises `BadInput` for one that cannot be called so."""
        given = {event: getattr(self, event) for event in BatchEvent.values}
        return {event: as_call(event, callback) for event, callback in given.items() if callback is not None}

    def open(self, flow: str) -> Batch:
        around: Batch | None = None
        if self.parent is not None:
            around = batches.find(self.parent.name)
        name = self.name or _own_name(flow)
        return batches.open_batch(
            name, flow, None, fail_fast=self.fail_fast, window=self.window, callbacks=self.callbacks(),
            parent=around, member=self.parent._member if self.parent else None, allowances=self.allowances,
        )  # fmt: skip


def open_batch(
    name: str, flow: str, *, window: int = 0, fail_fast: bool = False, on_complete: Callback = None,
    on_success: Callback = None, on_failure: Callback = None, parent: BatchHandle[Any] | None = None,
    allowances: str = "",
) -> BatchHandle[Any]:  # fmt: skip
    """Open a batch of executions of this flow; add to it, then close it.

    It completes when it is closed and all members have ended. Then the callbacks are enqueued, each once:
    `on_complete` in any case, `on_success` when all is done or skipped, `on_failure` otherwise. `fail_fast`:
    the first member that fails for good cancels the rest. `window`: how far after the first unfinished member
    others may start (0: any). `parent`: the batch that completes after this one. `allowances`: what its
    members may use together, as `5 usd in total`.

    Raises `BadInput` for a name that is taken, and a callback that could not be enqueued, and `UnknownFlow`.
    """
    rules = BatchRules(name, window, fail_fast, on_complete, on_success, on_failure, parent, allowances)
    return handle_of_batch(rules.open(flow))


def find_batch(name: str) -> BatchHandle[Any]:
    """The handle of the batch of this name. Raises `BadInput` if there is none."""
    return handle_of_batch(batches.find(name))


def current_batch() -> BatchHandle[Any]:
    """The batch of the member that runs here, for a step that adds to it, even once it is closed: it does not
    complete before this member has ended. Raises `RuntimeError` for who is no member."""
    found, lease = member_batch()
    return handle_of_batch(found, lease)


def completed_batch() -> BatchHandle[Any]:
    """The batch whose callback runs here, with the results of its members. Raises `RuntimeError` for
    others."""
    return completed.get() or handle_of_batch(batch_called_by())


def handle_of_batch(found: Batch, member: Any = None) -> BatchHandle[Any]:
    task = definition_of(get_flow(found.flow))
    if task is None:
        return BatchHandle(found.name, _member=member)
    return BatchHandle(found.name, task.arguments.read_result, _intake_for(task, Placing()), member)


def map_calls(
    task: TaskDefinition, items: Iterable[Any], placing: Placing, rules: BatchRules
) -> BatchHandle[Any]:
    """Enqueue a call for each item, in the order given, as the members of a batch, which is closed after
    them.

    Items are read as they are inserted, a few hundred at a time. An item that cannot be enqueued, or an
    iterable that raises, cancels the batch.
    """
    if placing.key:
        raise BadInput(
            f"{task.name}: map() enqueues many calls, which cannot all have the key {placing.key!r}"
        )
    priority = rank_for(task, placing)
    intakes = map(_intake_for(task, placing), items)
    if eager.is_on():
        return run_batch(task, intakes, rules.name or _own_name(task.name), rules.callbacks())
    opened = rules.open(task.name)
    try:
        while some := list(islice(intakes, ROWS_PER_STATEMENT)):  # what each says of its keys is forgotten
            batches.add(opened, some, priority=priority, run_after=placing.run_after)
    except BaseException:
        with suppress(Exception):  # in a transaction that is broken: it is rolled back with what it added
            batches.cancel(opened, Actor(PROGRAM, "code", "not all of its items could be added"))
        raise
    batches.close(opened, None)
    return handle_of_batch(opened)


def _intake_for(task: TaskDefinition, placing: Placing) -> Callable[[Any], NewExecution]:
    """An item is the call's arguments by name if it is a mapping, by position if it is a tuple, and otherwise
    its only argument."""

    def intake(item: Any) -> NewExecution:
        if isinstance(item, Mapping):
            payload = task.arguments.payload((), item)
        else:
            payload = task.arguments.payload(item if isinstance(item, tuple) else (item,), {})
        return intake_of(task, payload, placing)

    return intake


def as_call(event: str, given: Callback) -> Call:
    """What to enqueue, with the key of its batch unless it has one of its own. Raises `BadInput`."""
    if isinstance(given, Call):
        return given
    if isinstance(given, Signature):
        return _of_signature(event, given)
    if isinstance(given, Task):
        return _of_signature(event, given.s())
    if isinstance(given, Calls):
        return given.call()
    raise BadInput(
        f"{event}={excerpt(given)} is not a function made by @queued or a call of one, a Celery task with "
        "base QueuedTask or a signature of one, nor a Call"
    )


def _of_signature(event: str, signature: Signature) -> Call:
    task: Any = signature.type
    definition = getattr(task, "definition", None)
    if not isinstance(definition, TaskDefinition):
        raise BadInput(f"{event}: {signature.task} is no queued task: base=QueuedTask makes it one")
    options = dict(signature.options or {})
    if follows := sorted(name for name in FOLLOWS if options.get(name)):
        raise BadInput(
            f"{event}: {follows[0]}= does not go with what a batch enqueues: enqueue what follows in "
            f"{signature.task} itself"
        )
    payload = definition.arguments.payload(tuple(signature.args or ()), dict(signature.kwargs or {}))
    return call_of(definition, payload, placing_of(definition, options, redis=task.is_redis))


def call_of(task: TaskDefinition, payload: Mapping[str, Any], placing: Placing) -> Call:
    """The call of a task, to be enqueued by a batch. Raises `BadInput` for one at a time of its own."""
    if placing.run_after is not None:
        raise BadInput(
            f"{task.name}: a callback is enqueued when its batch completes, and not at another time"
        )
    intake = intake_of(task, payload, placing)
    has_own_key = bool(placing.key or task.unique_key)
    return Call(task.name, intake.payload, intake.key if has_own_key else "", rank_for(task, placing))


def _own_name(flow: str) -> str:
    return f"{flow[: MAX_NAME - 20]}-{secrets.token_hex(8)}"
