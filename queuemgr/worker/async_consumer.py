"""Receives the messages of leases for async slots, apart from those that Celery gives to its pool.

On a channel of its own, whose broker sends no more than there are async slots. A message is acknowledged when
its slot is free again, as one of the pool is. It needs no thread of the pool: steps in these, however long,
keep none of the others from starting.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any
from uuid import UUID

from celery import bootsteps
from kombu.common import ignore_errors

from queuemgr.lifecycle import tracing
from queuemgr.lifecycle.publish import LEASE_HEADER, queue_of_async_slots
from queuemgr.worker import dropped_messages, message_form
from queuemgr.worker.async_slots import Message, get_async_slots
from queuemgr.worker.current_worker import get_current_worker

logger = logging.getLogger(__name__)


class AsyncConsumer(bootsteps.StartStopStep):
    """A part of Celery's consumer, started anew with each connection to the broker."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        self._consumer: Any = None
        parent.async_consumer = self

    def include_if(self, parent: Any) -> bool:
        return bool(get_current_worker().row.async_slots)

    def start(self, parent: Any) -> None:
        worker = get_current_worker()
        channel = parent.connection.channel()
        channel.basic_qos(0, worker.row.async_slots, False)
        self._consumer = parent.app.amqp.TaskConsumer(
            channel,
            queues=[queue_of_async_slots(queue) for queue in sorted(worker.queues)],
            on_message=partial(self._receive, parent),
            on_decode_error=parent.on_decode_error,
        )
        self.consume(takes_work=not worker.drained.is_set())

    def consume(self, *, takes_work: bool) -> None:
        """Take messages, or none while the worker is drained; in the main loop."""
        if self._consumer is not None:
            (self._consumer.consume if takes_work else self._consumer.cancel)()

    def _receive(self, parent: Any, message: Any) -> None:
        slots, lease_id = get_async_slots(), _lease_of(message)
        if lease_id is None or slots is None:
            dropped_messages.reject(message, _why_not(message))
            return
        errors = parent.connection_errors
        acknowledge = partial(parent.call_soon, message.ack_log_error, logger, errors)
        slots.accept(Message(lease_id, message.headers.get(tracing.HEADER), acknowledge))

    def stop(self, parent: Any) -> None:
        if self._consumer is not None and parent.connection is not None:
            ignore_errors(parent.connection, self._consumer.cancel)

    def shutdown(self, parent: Any) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None and consumer.channel and parent.connection is not None:
            ignore_errors(parent.connection, consumer.channel.close)


def _lease_of(message: Any) -> UUID | None:
    """The lease that a message of the queue brings."""
    if message_form.problem_of_headers(message.headers) or LEASE_HEADER not in message.headers:
        return None
    try:
        return UUID(message.headers.get("id"))
    except (ValueError, TypeError, AttributeError):
        return None


def _why_not(message: Any) -> str:
    return message_form.problem_of_headers(message.headers) or "it names no lease"
