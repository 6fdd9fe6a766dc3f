"""How log records are written: as lines or as JSON, with the step they are about, secrets masked.

Text of strangers (a title, a header, an error of a service) is in many of them. Nothing of it can begin a
line of its own, or control the terminal of who reads it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime

from celery.signals import after_setup_logger, after_setup_task_logger
from opentelemetry import trace

from queuemgr.base.redaction import without_secrets
from queuemgr.base.safe_text import as_json, one_line
from queuemgr.lifecycle import log_context

INDENT = "    "


class AboutStep(logging.Filter):
    """Puts the fields of the step on each record: as a mapping (`fields`) and as text (`about`)."""

    def filter(self, record: logging.LogRecord) -> bool:
        fields = log_context.fields()
        record.fields = fields
        text = " ".join(f"{name}={value}" for name, value in fields.items())
        record.about = f" [{text}]" if text else ""
        return True


class LineFormatter(logging.Formatter):
    """A line of text, and below it, indented, the traceback if there is one; secrets masked.

    What a caller gives as `extra={"lines": …}` follows as a traceback does.
    """

    def __init__(self) -> None:
        form = "{asctime} {levelname} {name}: {message}{about}"
        super().__init__(form, style="{", defaults={"about": ""})

    def format(self, record: logging.LogRecord) -> str:
        record.message = record.getMessage()
        record.asctime = self.formatTime(record)
        below = (line for text in _texts_below(self, record) for line in text.splitlines())
        return "\n".join(
            [self._shown(self.formatMessage(record)), *(INDENT + self._shown(line) for line in below)]
        )

    @staticmethod
    def _shown(text: str) -> str:
        return one_line(without_secrets(text))


class JsonFormatter(logging.Formatter):
    """One JSON object per record, on one line; secrets masked.

    `time` (UTC, ISO 8601), `level`, `logger`, `message`; the fields of the step; `trace_id` and
    `span_id` inside a span; `exception` with the traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": without_secrets(record.getMessage()),
            **{
                name: without_secrets(value) if isinstance(value, str) else value
                for name, value in getattr(record, "fields", {}).items()
            },
        }
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            entry["trace_id"] = trace.format_trace_id(context.trace_id)
            entry["span_id"] = trace.format_span_id(context.span_id)
        if below := "\n".join(_texts_below(self, record)):
            entry["exception" if record.exc_info else "lines"] = without_secrets(below)
        return as_json(entry)


def _texts_below(formatter: logging.Formatter, record: logging.LogRecord) -> Iterator[str]:
    """What belongs to a record beside its message."""
    if lines := getattr(record, "lines", ""):
        yield str(lines)
    if record.exc_info:
        yield formatter.formatException(record.exc_info)
    elif record.exc_text:
        yield record.exc_text
    if record.stack_info:
        yield formatter.formatStack(record.stack_info)


@after_setup_logger.connect
@after_setup_task_logger.connect
def format_celerys_loggers(**kwargs: object) -> None:
    """Celery gives two of its loggers handlers with formats of its own: have them write as all others do."""
    ours = [handler.formatter for handler in logging.getLogger().handlers if _is_ours(handler.formatter)]
    for name in ("celery.task", "multiprocessing"):
        for handler in logging.getLogger(name).handlers if ours else ():
            handler.setFormatter(ours[0])


def _is_ours(formatter: logging.Formatter | None) -> bool:
    return isinstance(formatter, LineFormatter | JsonFormatter)
