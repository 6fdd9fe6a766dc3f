"""Celery's consumer, which also reconnects when kombu trips over a connection to the broker that is gone.

Celery restarts the consumer for connection errors only. When the broker goes away at a bad moment, kombu
restores unacknowledged messages of a channel that has lost its connection, and raises `AttributeError`
(celery/kombu#582): out of the clean-up of the lost connection or of the event loop, it ends the worker.
"""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Any

from celery.worker import consumer

logger = logging.getLogger(__name__)

CLEAN_UP_ERRORS = (AttributeError, RuntimeError)
"""What kombu raises for a channel without a connection, and for messages acknowledged meanwhile."""

CelerysConsumer: Any = consumer.Consumer


class RestartingConsumer(CelerysConsumer):  # type: ignore[misc]  # untyped
    """`celery worker` uses it where no other class of consumer is configured."""

    def start(self) -> None:
        """Consume until the worker stops; what kombu raises in the event loop is a lost connection."""
        while True:
            try:
                super().start()
                return
            except CLEAN_UP_ERRORS as error:
                if not raised_by_kombu(error):
                    raise
                self._connect_again(error)

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


def raised_by_kombu(error: BaseException) -> bool:
    """Whether this error comes from kombu's own code, rather than from a bug of ours or of Celery."""
    return _innermost_module(error.__traceback__).partition(".")[0] == "kombu"


def _innermost_module(traceback: TracebackType | None) -> str:
    module = ""
    while traceback:
        module = str(traceback.tb_frame.f_globals.get("__name__", ""))
        traceback = traceback.tb_next
    return module


def _is_of_a_transport(tick: Any) -> bool:
    return str(getattr(tick, "__module__", "")).startswith("kombu.transport.")
