"""The last lines that were logged while a step ran, kept in memory, and stored with its attempt if it fails.

They are the records that the application's own loggers and ours let through, of the context of the step: not
of threads that it starts without its context, nor of programs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime

from queuemgr.base.config import queue_settings
from queuemgr.base.redaction import masked
from queuemgr.base.safe_text import one_line
from queuemgr.flows.outcomes import Failed, Result
from queuemgr.lifecycle import log_context, result_store
from queuemgr.lifecycle.log_context import LogLine

MOST_CHARACTERS = 16_000
MOST_OF_A_LINE = 500
MOST_KEPT = 4_000
"""Characters of one message that are kept in memory."""

_call_handlers = logging.Logger.callHandlers
_installed = False


def install() -> None:
    """Note what every logger of this process, and of its forked children, hands to its handlers. Whoever
    else put something in that place (a tracer) is called as well, before it or after it."""
    global _call_handlers, _installed
    if _installed:
        return  # somebody may have wrapped ours: to wrap that would call both without end
    _call_handlers, _installed = logging.Logger.callHandlers, True
    setattr(logging.Logger, "callHandlers", _noting)  # noqa: B010  # mypy refuses an assignment


def remove() -> None:
    """Undo `install`, unless somebody has wrapped ours since."""
    global _installed
    if logging.Logger.callHandlers is not _noting:
        return
    _installed = False
    setattr(logging.Logger, "callHandlers", _call_handlers)  # noqa: B010  # as above


def _noting(logger: logging.Logger, record: logging.LogRecord) -> None:
    _call_handlers(logger, record)
    if record.levelno >= logging.INFO and (lines := log_context.lines()) is not None:
        lines.append(LogLine(record.created, record.levelname, record.name, _message(record)[:MOST_KEPT]))


def _message(record: logging.LogRecord) -> str:
    """Handlers bear a record that cannot be formatted, so this must not fail its step either."""
    try:
        raised = record.exc_info[0] if record.exc_info else None
        return record.getMessage() + (f" ({raised.__name__})" if raised else "")
    except Exception as error:
        return f"a message that cannot be formatted: {type(error).__name__}"


def text_for(result: Result, lines: Iterable[LogLine] | None = None) -> str:
    """What is stored of these lines, or those of this context, with a failed attempt; empty for a result
    that is none and has no store, which may fail."""
    most = queue_settings().attempt_log_lines
    if not most or not (isinstance(result, Failed) or result_store.has_store(result)):
        return ""
    return text_of(list(lines or log_context.lines() or ())[-most:])


def text_of(lines: Iterable[LogLine]) -> str:
    """A line for each record, with secrets masked and controls escaped: the last that there is room for."""
    kept: list[str] = []
    left = MOST_CHARACTERS
    for line in reversed([*lines]):
        text = _shown(line)
        left -= len(text) + 1
        if left < 0:
            break
        kept.append(text)
    return "\n".join(reversed(kept))


def _shown(line: LogLine) -> str:
    at = datetime.fromtimestamp(line.created, UTC)
    message: str = masked(line.message)
    if len(line.message) == MOST_KEPT:  # half of a secret may be at its end
        message = message[: -(MOST_KEPT - MOST_OF_A_LINE)] + "…"
    elif len(message) > MOST_OF_A_LINE:
        message = message[: MOST_OF_A_LINE - 1] + "…"
    said = f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03} UTC {line.level} {masked(line.logger)}"
    return one_line(f"{said[:200]}: {message}")[: 2 * MOST_OF_A_LINE]
