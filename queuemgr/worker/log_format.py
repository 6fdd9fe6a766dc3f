"""How log records are written: as lines or as JSON, with the step they are about, secrets masked."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from opentelemetry import trace

from queuemgr.base.redaction import without_secrets
from queuemgr.lifecycle import log_context


class AboutStep(logging.Filter):
    """Puts the fields of the step on each record: as a mapping (`fields`) and as text (`about`)."""

    def filter(self, record: logging.LogRecord) -> bool:
        fields = log_context.fields()
        record.fields = fields
        text = " ".join(f"{name}={value}" for name, value in fields.items())
        record.about = f" [{text}]" if text else ""
        return True


class LineFormatter(logging.Formatter):
    """A line of text, followed by the traceback if there is one; secrets masked."""

    def __init__(self) -> None:
        form = "{asctime} {levelname} {name}: {message}{about}"
        super().__init__(form, style="{", defaults={"about": ""})

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


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
        if record.exc_info:
            entry["exception"] = without_secrets(self.formatException(record.exc_info))
        return json.dumps(entry, ensure_ascii=False)
