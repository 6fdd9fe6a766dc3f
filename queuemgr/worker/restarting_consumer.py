"""Celery's consumer, which reconnects when kombu trips over a lost connection, and drops what it cannot read.

Celery restarts the consumer for connection errors only. When the broker goes away at a bad moment, kombu
restores unacknowledged messages of a channel that has lost its connection, and raises `AttributeError`
(celery/kombu#582): out of the clean-up of the lost connection or of the event loop, it ends the worker.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import redis
from celery.worker import consumer
from redis.exceptions import OutOfMemoryError

from queuemgr.base.raised import type_name
from queuemgr.base.safe_text import safe_text
from queuemgr.lifecycle.publish import LEASE_HEADER, UNKNOWN_STEP
from queuemgr.worker import broker_keys, dropped_messages, message_form
from queuemgr.worker.kombu_errors import CLEAN_UP_ERRORS, raised_by_kombu

logger = logging.getLogger(__name__)

PAUSE = 1.0
"""Seconds until a broker is asked again that has refused a command."""

CelerysConsumer: Any = consumer.Consumer


class RestartingConsumer(CelerysConsumer):  # type: ignore[misc]  # untyped
    """`celery worker` uses it where no other class of consumer is configured."""

    def start(self) -> None:
        """Consume until the worker stops; what kombu raises in the event loop is a lost connection."""
        while True:
            try:
                super().start()
                return
            except (redis.ResponseError, ValueError) as error:
                if not self._is_over(error):
                    raise
                time.sleep(PAUSE)
                self._connect_again(error)
            except CLEAN_UP_ERRORS as error:
                if not raised_by_kombu(error):
                    raise
                self._connect_again(error)

    def _is_over(self, error: Exception) -> bool:
        """Whether what the broker answered need not end this worker: it has no memory left now, or its keys
        were of the wrong type, and are not any more."""
        try:
            return isinstance(error, OutOfMemoryError) or broker_keys.mend(self.app) > 0
        except (redis.RedisError, OSError, ValueError):
            return False

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Any:
        """Celery's, for messages whose headers are what it takes them to be."""
        received = super().create_task_handler(*args, **kwargs)

        def on_task_received(message: Any) -> Any:
            if why := message_form.problem_of_headers(message.headers) or self._why_not_later(message):
                return dropped_messages.reject(message, why)
            if LEASE_HEADER in message.headers and message.headers["task"] not in self.strategies:
                message.headers["task"] = UNKNOWN_STEP  # of a release that this worker is not of
            return received(message)

        return on_task_received

    def _why_not_later(self, message: Any) -> str:
        """A message with a time waits in this worker's memory until then. Those of the queue have none."""
        if not message.headers.get("eta"):
            return ""
        task = self.app.tasks.get(message.headers.get("task"))
        is_ours = LEASE_HEADER in message.headers or getattr(task, "only_of_the_queue", False)
        return "it is to wait, and what the queue sends is due at once" if is_ours else ""

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """Drop it. Celery's own logs what it holds, and raises for some."""
        dropped_messages.reject(message, f"its body cannot be read ({type_name(exc)})")

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:
        dropped_messages.reject(message, f"it is no valid task ({type_name(exc)})")

    def on_unknown_message(self, body: Any, message: Any) -> None:
        dropped_messages.reject(message, "it is of no known form")

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:
        name = message.headers.get("task")
        dropped_messages.reject(message, f"there is no task {safe_text(repr(name))[:100]}")

    def _connect_again(self, error: Exception) -> None:
        """As Celery does for connection errors."""
        if self.connection:
            self.on_connection_error_after_connected(error)
        self.on_close()
        self._cancel_connection_timer_entries()
        self.blueprint.restart(self)

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """Let the lost connection go, though kombu may fail to close it."""
        try:
            super().on_connection_error_after_connected(exc)
        except CLEAN_UP_ERRORS as error:
            if not raised_by_kombu(error):
                raise
            logger.warning("the lost connection to the broker could not be closed (%r)", error)
            self.connection = None
        if self.hub:  # closing would have removed them
            self.hub.on_tick -= {tick for tick in self.hub.on_tick if _is_of_a_transport(tick)}


def _is_of_a_transport(tick: Any) -> bool:
    return str(getattr(tick, "__module__", "")).startswith("kombu.transport.")
