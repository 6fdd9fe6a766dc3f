"""Errors that kombu raises over a connection to the broker that is gone."""

from __future__ import annotations

from types import TracebackType
from typing import Any

CLEAN_UP_ERRORS = (AttributeError, RuntimeError)
"""What kombu raises for a channel without a connection, and for messages acknowledged meanwhile."""


def raised_by_kombu(error: BaseException) -> bool:
    """Whether this error comes from kombu's own code, rather than from a bug of ours or of Celery."""
    return _innermost_module(error.__traceback__).partition(".")[0] == "kombu"


def _innermost_module(traceback: TracebackType | None) -> str:
    module = ""
    while traceback:
        module = str(traceback.tb_frame.f_globals.get("__name__", ""))
        traceback = traceback.tb_next
    return module


def is_lost_connection(error: BaseException, consumer: Any) -> bool:
    """Whether this error says that the connection of this consumer is gone, not that a message is bad."""
    if isinstance(error, KeyError):  # one of kombu's connection errors, too
        return False
    if isinstance(error, CLEAN_UP_ERRORS) and not isinstance(error, RecursionError):
        return raised_by_kombu(error)
    connection = consumer.connection
    errors = (*connection.connection_errors, *connection.channel_errors) if connection else (OSError,)
    return isinstance(error, errors)
