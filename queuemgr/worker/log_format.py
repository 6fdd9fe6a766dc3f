"""How log records are written: as lines or as JSON, each saying which step it is about, secrets masked."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from opentelemetry import trace

from queuemgr.base.redaction import without_secrets

if TYPE_CHECKING:  # this is read while Django sets up logging, before there are models
    from queuemgr.lifecycle.leases import Grant

Facts = Mapping[str, str | int]

_about: ContextVar[tuple[Grant, str] | None] = ContextVar("about", default=None)


@contextmanager
def about(grant: Grant, worker: str) -> Iterator[None]:
    """Have every record made meanwhile, in this context, say that it is about this grant's step."""
    token = _about.set((grant, worker))
    try:
        yield
    finally:
        _about.reset(token)


def _facts() -> Facts:
    """What there is to say of the step this is in; made for a record, not for each step."""
    about = _about.get()
    if about is None:
        return {}
    grant, worker = about
    return {
        "execution": grant.execution_id,
        "flow": grant.flow,
        "key": grant.key,
        "phase": grant.phase,
        "step": grant.step,
        "lease": str(grant.lease_id),
        "worker": worker,
    }


class AboutStep(logging.Filter):
    """Puts on each record the facts of the step it was made in: `facts`, and as text `about`."""

    def filter(self, record: logging.LogRecord) -> bool:
        facts = _facts()
        record.facts = facts
        said = " ".join(f"{name}={value}" for name, value in facts.items())
        record.about = f" [{said}]" if said else ""
        return True


class LineFormatter(logging.Formatter):
    """A line of text, and whatever traceback belongs to it; secrets masked."""

    def __init__(self) -> None:
        form = "{asctime} {levelname} {name}: {message}{about}"
        super().__init__(form, style="{", defaults={"about": ""})

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


class JsonFormatter(logging.Formatter):
    """One JSON object a record, on one line; secrets masked.

    `time` (UTC, ISO 8601), `level`, `logger`, `message`; the facts of a step; `trace_id` and `span_id`
    inside a span; `exception` with the traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": without_secrets(record.getMessage()),
            **{name: _masked(value) for name, value in getattr(record, "facts", {}).items()},
            **_trace(),
        }
        if record.exc_info:
            said["exception"] = without_secrets(self.formatException(record.exc_info))
        return json.dumps(said, ensure_ascii=False)


def _masked(value: str | int) -> str | int:
    return without_secrets(value) if isinstance(value, str) else value


def _trace() -> dict[str, str]:
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {
        "trace_id": trace.format_trace_id(context.trace_id),
        "span_id": trace.format_span_id(context.span_id),
    }
