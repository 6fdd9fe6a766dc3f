"""Tracebacks of errors nobody caught, which Python prints to the standard error, without secrets."""

from __future__ import annotations

import sys
import threading
from traceback import format_exception
from types import TracebackType

from queuemgr.base.redaction import without_secrets


def install() -> None:
    """Mask what Python prints when this process, or a thread of it, ends by an exception."""
    sys.excepthook = _print
    threading.excepthook = _print_of_thread


def _print(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    if sys.stderr is not None:
        sys.stderr.write(without_secrets("".join(format_exception(kind, error, where))))


def _print_of_thread(ended: threading.ExceptHookArgs) -> None:
    if ended.exc_value is not None and not isinstance(ended.exc_value, SystemExit):
        _print(ended.exc_type, ended.exc_value, ended.exc_traceback)
