"""Keeps a worker from depending on logging: no call of a logger raises in its processes.

Filters, handlers, formatters and record factories are an application's, and a step may add more. What they
raise would otherwise reach whoever logs: a slot that ends a lease, a thread that renews leases.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import Any

from celery.exceptions import WorkerShutdown, WorkerTerminate

from queuemgr.base.raised import is_raised
from queuemgr.base.redaction import clean, describe_error
from queuemgr.base.safe_text import one_line
from queuemgr.worker.shutting_down import is_shutting_down

_handle = logging.Logger.handle
_make_record = logging.Logger.makeRecord


def install() -> None:
    """Guard every logger of this process and of its forked children."""
    setattr(logging.Logger, "handle", _guarded_handle)  # noqa: B010  # mypy refuses an assignment
    setattr(logging.Logger, "makeRecord", _guarded_make_record)  # noqa: B010  # as above


def remove() -> None:
    """Undo `install`."""
    setattr(logging.Logger, "handle", _handle)  # noqa: B010  # as above
    setattr(logging.Logger, "makeRecord", _make_record)  # noqa: B010  # as above


def _guarded_handle(logger: logging.Logger, record: logging.LogRecord) -> None:
    try:
        _handle(logger, record)
    except BaseException as error:
        if is_shutting_down() or is_raised(error, (WorkerShutdown, WorkerTerminate)):
            raise  # a request to end this process that came while it logged
        _say(record, error)


def _guarded_make_record(logger: logging.Logger, *args: Any, **kwargs: Any) -> logging.LogRecord:
    try:
        return _make_record(logger, *args, **kwargs)
    except Exception:
        name, level, path, line, message, values, exception, *_ = args
        return logging.LogRecord(name, level, path, line, message, values, exception)


def _say(record: logging.LogRecord, error: BaseException) -> None:
    """A line on the standard error, whatever that is redirected to: logging is what failed."""
    with suppress(BaseException):
        text = (
            f"{record.levelname} {record.name}: {record.getMessage()} (not logged: {describe_error(error)})"
        )
        os.write(2, one_line(clean(text)).encode() + b"\n")
