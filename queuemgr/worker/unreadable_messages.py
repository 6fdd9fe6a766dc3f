"""Messages of the broker that no worker can read: each is looked at before kombu does.

Whoever can write to the broker can put anything into its queues, and so can a fault or another program. kombu
and Celery raise for some of it out of the event loop, which ends the worker with all its steps. Here it is
looked at before they do, and what they still raise over a message is the message's fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import redis
from celery import current_app
from celery.concurrency import thread
from celery.worker import state as worker_state
from celery.worker.request import Request
from kombu import messaging
from kombu.transport import redis as kombu_redis
from kombu.utils.encoding import bytes_to_str

from queuemgr.base.raised import type_name
from queuemgr.worker import message_form
from queuemgr.worker.dropped_messages import drop, reject
from queuemgr.worker.kombu_errors import is_lost_connection


class _Guard(NamedTuple):
    """A function of kombu or Celery, and ours that is called in its place."""

    owner: Any
    name: str
    kombus: Callable[..., Any]
    ours: Callable[..., Any]


def install() -> None:
    """Look at each message before kombu does, in this process."""
    for guard in GUARDS:
        setattr(guard.owner, guard.name, guard.ours)


def remove() -> None:
    """Undo `install`."""
    for guard in GUARDS:
        setattr(guard.owner, guard.name, guard.kombus)


def _loads(text: str) -> Any:
    try:
        return LOADS.kombus(text)
    except Exception:  # JSON too deep is a RecursionError
        return message_form.Unreadable()


def _deliver(transport: Any, message: Any, queue: str) -> None:
    why = message_form.problem_of(message) or message_form.problem_of_compression(
        message.get("headers"), current_app.conf.task_compression
    )
    if why:
        drop(why)
    else:
        DELIVER.kombus(transport, message, queue)


def _restore_by_tag(qos: Any, tag: Any, client: Any = None, leftmost: bool = False) -> None:
    """What a worker that is gone did not acknowledge is sent again. kombu raises over what is no message, in
    every worker that starts."""
    with qos.channel.conn_or_acquire(client) as connected:
        kept = connected.hget(qos.unacked_key, tag)
        if kept is None or message_form.is_kept_message(_loads(bytes_to_str(kept))):
            try:
                RESTORE.kombus(qos, tag, connected, leftmost)
                return
            except redis.RedisError as error:
                if not isinstance(error, redis.DataError):  # such as a queue that does not exist
                    raise
        qos._remove_from_indices(tag).execute()
    drop("it waited to be acknowledged, and is none")


def _receive_callback(consumer: Any, message: Any) -> Any:
    try:
        return RECEIVE.kombus(consumer, message)
    except Exception as error:
        if is_lost_connection(error, consumer):
            raise
        reject(message, f"a {type_name(error)} over what it holds")


def _apply_target(target: Any, args: Any = (), kwargs: Any = None, callback: Any = None, *more: Any) -> None:
    """What Celery raises in a thread over a message, before and after the task, it tells nobody: the message
    would never be acknowledged, and the worker take one less at a time, until it takes none."""
    try:
        APPLY.kombus(target, args, kwargs, callback, *more)
    except Exception as error:
        request = getattr(callback, "__self__", None)
        if not isinstance(request, Request) or request.acknowledged or _is_connection(error, request):
            raise
        drop(f"a {type_name(error)} over what it holds")
        worker_state.task_ready(request)
        request.acknowledge()


def _is_connection(error: Exception, request: Request) -> bool:
    """Whether the broker is away, which sends the message again. One of its errors is a `KeyError`, too."""
    return isinstance(error, tuple(request.connection_errors)) and not isinstance(error, KeyError)


LOADS = _Guard(kombu_redis, "loads", vars(kombu_redis)["loads"], _loads)
DELIVER = _Guard(kombu_redis.Transport, "_deliver", kombu_redis.Transport._deliver, _deliver)
RESTORE = _Guard(kombu_redis.QoS, "restore_by_tag", kombu_redis.QoS.restore_by_tag, _restore_by_tag)
RECEIVE = _Guard(
    messaging.Consumer, "_receive_callback", messaging.Consumer._receive_callback, _receive_callback
)
APPLY = _Guard(thread, "apply_target", vars(thread)["apply_target"], _apply_target)
GUARDS = (LOADS, DELIVER, RESTORE, RECEIVE, APPLY)
