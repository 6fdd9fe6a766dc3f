"""Notifies Celery how calls ended: chains, groups and chords continue, and its result backend has the result.

What a plain task's worker does after its task, in the same order: call what is linked, call what is next in
the chain, then store the result, which ends a chord whose last part it is.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from celery import current_app
from celery.app.task import Context
from celery.backends.base import DisabledBackend
from celery.canvas import maybe_signature
from kombu.exceptions import SerializationError
from kombu.utils import json
from kombu.utils.functional import maybe_list
from kombu.utils.uuid import uuid

from queuemgr.base import transaction
from queuemgr.base.errors import BadInput, SluiceError
from queuemgr.base.redaction import describe_error
from queuemgr.flows.payload_validation import MAX_BYTES
from queuemgr.lifecycle import canvas_calls
from queuemgr.lifecycle.publish import broker_errors
from queuemgr.models import CanvasCall
from queuemgr.tasks import eager
from queuemgr.tasks.definition import TaskDefinition
from queuemgr.tasks.enqueue_call import Placing, enqueue_call
from queuemgr.tasks.handle import Handle, NoSuchExecution, TaskFailed, TaskNotRun

AnyTask = Any
"""A task of Celery's, whose stubs say that it is generic, which it is not at run time."""

logger = logging.getLogger(__name__)

FOLLOWS: Mapping[str, str] = {
    "link": "callbacks", "link_error": "errbacks", "chain": "chain", "chord": "chord",
}  # fmt: skip
"""Options of a call that say what follows it, by their name in a message."""

PLACE = {"group_id": "group", "group_index": "group_index", "root_id": "root_id", "parent_id": "parent_id"}
"""Options that say where in a canvas it is."""


@dataclass(frozen=True)
class Canvas:
    """What Celery is to be notified of, of one call: its id, and its request as a message would have it."""

    task_id: str
    request: Mapping[str, Any]
    is_of_celery: bool
    """Whether Celery made its id, not the caller."""

    is_refusable: bool
    """Whether the caller sees an error: not where Celery's worker calls what is next, nor in a group, of
    which others may have been sent."""


def canvas_of(task: AnyTask, options: dict[str, Any]) -> Canvas | None:
    """Take from these options of a call what only Celery's canvas needs; None if nobody is to be notified.
    Raises `BadInput` for what nobody could call."""
    follows = {name: options.pop(name, None) for name in FOLLOWS}
    follows.update({name: maybe_list(follows[name]) for name in ("link", "link_error")})
    if wrong := problem_of(follows):
        raise BadInput(f"{task.name}: {wrong}")
    place = {name: options.pop(name, None) for name in PLACE}
    task_id = options["task_id"]
    if not any(follows.values()) and (not task_id or is_off(task)):
        return None
    options["task_id"] = task_id = str(task_id or uuid())
    request = {
        **{FOLLOWS[name]: value for name, value in follows.items() if value},
        **{PLACE[name]: value for name, value in place.items() if value is not None},
        "id": task_id, "correlation_id": task_id, "task": task.name,
        "ignore_result": bool(options.get("ignore_result")),
        "reply_to": options.get("reply_to") or task.app.thread_oid,
    }  # fmt: skip
    is_part = place["group_id"] is not None or place["parent_id"] is not None
    return Canvas(
        task_id, request, is_of_celery=is_part or any(follows.values()),
        is_refusable=not is_part or is_off(task),
    )  # fmt: skip


def problem_of(options: Mapping[str, Any]) -> str:
    """Why what follows a call with these options cannot be called, or ""."""
    for name in FOLLOWS:
        value = options.get(name)
        calls = value if isinstance(value, list | tuple) else [value]
        if value and not all(map(_names_a_task, calls)):
            return f"{name} of a call takes signatures of tasks"
    return ""


def _names_a_task(signature: Any) -> bool:
    return isinstance(signature, dict) and isinstance(signature.get("task"), str)


def is_off(task: AnyTask) -> bool:
    """Whether the project has no result backend."""
    return isinstance(task.backend, DisabledBackend)


def options_of(request: Context) -> dict[str, Any]:
    """The options with which the message of this request was sent."""
    named = {**FOLLOWS, **PLACE, "task_id": "id", "ignore_result": "ignore_result", "reply_to": "reply_to"}
    return {option: getattr(request, name, None) for option, name in named.items()}


def enqueue_called_by(
    canvas: Canvas, task: AnyTask, payload: Mapping[str, Any], placing: Placing, *, of_message: bool = False
) -> Handle[Any]:
    """Enqueue the call, and record with it what is to be reported: nothing to a message with the id of a call
    that somebody else made. Raises as `enqueue_call`, and `BadInput` where what follows is too large."""
    definition: TaskDefinition = task.definition
    if definition.unique_key and canvas.is_of_celery:
        placing = replace(placing, key="")
    request = json.dumps(canvas.request)
    if len(request) > MAX_BYTES:
        raise BadInput(f"{definition.name}: what follows it takes {len(request):,} bytes; {MAX_BYTES:,} fit")
    payload = {**payload, canvas_calls.MARK: True}
    if eager.is_on():  # what follows it runs at once, too
        handle, stores = (
            enqueue_call(definition, payload, placing),
            bool(task.app.conf.task_store_eager_result),
        )
        _notify(task, _request(canvas.request), handle, stores=stores, stores_failure=stores)
        return handle
    with transaction.atomic():
        named = (definition.name, placing.key, canvas.task_id)
        is_of_another = of_message and canvas_calls.is_of_another(*named)
        handle = enqueue_call(definition, payload, placing)
        if is_of_another:
            return handle
        canvas_calls.record(definition.name, handle.key, canvas.task_id, request)
    return handle


def refuse(task: AnyTask, canvas: Canvas, error: SluiceError) -> None:
    """Notify Celery of a call that was not enqueued."""
    logger.error("%s[%s] was not enqueued: %s", task.name, canvas.task_id, describe_error(error))
    task.backend.mark_as_failure(canvas.task_id, error, request=_request(canvas.request))


def notify(sender: object, event: canvas_calls.Ended, **_: object) -> None:
    """Notify Celery of calls that have ended; where that fails now, the tick tries again."""
    task = current_app.tasks.get(event.flow)
    if task is None:  # another process of the project has it
        return
    for call in canvas_calls.claim(event):
        try:
            _notify_of(task, call)
        except Exception as error:
            if not _is_for_ever(error):  # a broker, a result backend or a database may be away
                logger.warning("Celery could not be notified how %s ended: %s", call, describe_error(error))
                continue
            logger.error("what follows %s cannot be called: %s", call, describe_error(error))
            with suppress(Exception):
                task.backend.mark_as_failure(call.task_id, error)
        canvas_calls.mark_notified(call)


WRONG_TYPES = (TypeError, ValueError, LookupError, AttributeError)
FOR_EVER = (*WRONG_TYPES, RecursionError, SerializationError, SluiceError)
"""What calling the next task raises each time, such as one that takes no result."""


def _is_for_ever(error: Exception) -> bool:
    """A `KeyError` is among those that brokers raise, too."""
    is_away = isinstance(error, broker_errors()) and not isinstance(error, KeyError)
    return isinstance(error, FOR_EVER) and not is_away


def _notify_of(task: AnyTask, call: CanvasCall) -> None:
    definition, request = task.definition, _request(json.loads(call.request))
    handle = Handle[Any](call.flow, call.key, partial(_readable, definition))
    _notify(task, request, handle, stores=definition.keeps_result and not request.ignore_result)


def _notify(
    task: AnyTask, request: Context, handle: Handle[Any], *, stores: bool, stores_failure: bool = True
) -> None:
    try:
        result: Any = handle.result(timeout=0)
    except (TaskFailed, TaskNotRun, NoSuchExecution) as error:
        traceback = getattr(error, "traceback", "") or None
        if isinstance(error, TaskFailed):  # whose traceback Celery stores beside it
            error = TaskFailed(error.call, error.kind, error.message)
        if getattr(request, canvas_calls.AGAIN, False):
            request.chain = None  # whose tasks have failed with it before
        task.backend.mark_as_failure(
            request.id, error, traceback=traceback, request=request, store_result=stores_failure
        )
        return
    ids: dict[str, Any] = {"parent_id": request.id, "root_id": request.root_id or request.id}
    for callback in request.callbacks or ():
        _signature(task, callback).apply_async((result,), **ids)
    if chain := list(request.chain or ()):
        _signature(task, chain.pop()).apply_async((result,), chain=chain, **ids)
    task.backend.mark_as_done(request.id, result, request=request, store_result=stores)


def _signature(task: AnyTask, stored: Any) -> Any:
    return maybe_signature(stored, app=task.app)


def _request(stored: Mapping[str, Any]) -> Context:
    return Context({**stored, "delivery_info": {"is_eager": False, "priority": None}, "children": []})


def _readable(definition: TaskDefinition, stored: Any) -> Any:
    """The result as the function returned it, or as it is stored where Celery's JSON does not hold that."""
    result = definition.arguments.read_result(stored)
    try:
        json.dumps(result)
    except Exception:
        return stored
    return result


canvas_calls.calls_ended.connect(notify, dispatch_uid="queuemgr.tasks.celery_results")
