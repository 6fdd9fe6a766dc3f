"""OpenTelemetry traces of enqueues, of decisions that start something, and of steps.

Each execution has a trace of its own: a span that links to the one in which it was enqueued, and a child
span for each of its steps, whichever worker runs it. Spans carry ids, names and counts, the worker and its
host; never keys, payloads, error messages, or text.

Without an endpoint (`OTEL_EXPORTER_OTLP_ENDPOINT`) or a tracer provider set by the application nothing is
set up, and no span is made.
"""

from __future__ import annotations

import atexit
import importlib.util
import logging
import os
import socket
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from queuemgr.base import process_state
from queuemgr.base.config import observability_settings
from queuemgr.flows.flow import PRIORITY_NAMES
from queuemgr.flows.outcomes import Failed, Result
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import Execution

if TYPE_CHECKING:  # which completes batches, whose callbacks are traced
    from queuemgr.lifecycle.scheduler import GrantResult

logger = logging.getLogger(__name__)

HEADER = "traceparent"
"""The header of a message that carries the trace (W3C Trace Context)."""

LINKS = 32
"""Executions a decision links to, at most."""

_propagator = TraceContextTextMapPropagator()
_configuring = threading.Lock()
_configured = False
_processor: Any = None


def tracer() -> Tracer | None:
    """The tracer of this process; None where nothing is traced."""
    if not _configured:
        _configure_once()
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return provider.get_tracer("queuemgr")


def stop() -> None:
    """Export what is buffered, in bounded time, before a process ends. Later spans are dropped."""
    global _processor
    if _processor is not None:
        _processor.shutdown()
        _processor = None


def _reset() -> None:
    global _configured
    stop()
    _configured = False


process_state.register(_reset)


class Enqueuing:
    """The span around inserting executions, and the spans with which their own traces begin."""

    def __init__(self, span: Span | None = None, own: Mapping[str, Span] | None = None) -> None:
        self._span, self._own = span, own or {}

    def stored(self, keys: Collection[str]) -> None:
        """End the spans of the executions that are new; the others were there before, in other traces."""
        for key in keys:
            if key in self._own:
                self._own[key].end()
        if self._span is not None:
            self._span.set_attribute("sluicegate.new", len(keys))


@contextmanager
def enqueuing(flow: str, rows: Sequence[Execution]) -> Iterator[Enqueuing]:
    """A span around inserting these executions, each of which gets a trace of its own, linked to it."""
    tracing = tracer()
    if tracing is None:
        yield Enqueuing()
        return
    with tracing.start_as_current_span(
        f"enqueue {flow}", kind=SpanKind.PRODUCER,
        attributes={"sluicegate.flow": flow, "sluicegate.executions": len(rows)},
        record_exception=False, set_status_on_exception=False,
    ) as span:  # fmt: skip
        link = Link(span.get_span_context())
        try:
            first = {row.key: row for row in reversed(rows)}  # of two with one key, the first is stored
            yield Enqueuing(span, {key: _begin_trace(tracing, row, link) for key, row in first.items()})
        except Exception as error:  # of which the span carries the class only
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(Status(StatusCode.ERROR))
            raise


def _begin_trace(tracing: Tracer, row: Execution, enqueued: Link) -> Span:
    """The first span of an execution's own trace, which the row stores."""
    span = tracing.start_span(
        f"execution {row.flow}",
        context=Context(),
        kind=SpanKind.PRODUCER,
        links=[enqueued],
        attributes={
            "sluicegate.flow": row.flow,
            "sluicegate.priority": PRIORITY_NAMES.get(row.priority, str(row.priority)),
        },
    )
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, context=trace.set_span_in_context(span, Context()))
    row.traceparent = carrier.get(HEADER, "")
    return span


def record_decision(began: float, granted: GrantResult) -> None:
    """A span of a decision that started something, from `began` (`time.time()`) until now."""
    tracing = tracer() if granted.assigned or granted.to_send else None
    if tracing is None:
        return
    starts = [*granted.assigned, *granted.to_send]
    counts = {
        "sluicegate.starts": len(starts),
        "sluicegate.assigned": len(granted.assigned),
        "sluicegate.sent": len(granted.to_send),
    }
    tracing.start_span(
        "dispatch",
        kind=SpanKind.INTERNAL,
        start_time=int(began * 1e9),
        links=_links(starts),
        attributes=counts,
    ).end()


def headers(grant: Grant) -> dict[str, str]:
    return {HEADER: grant.traceparent} if grant.traceparent else {}


def step_began(grant: Grant, task: str, carried: str | None = None, *, worker: str = "") -> Span | None:
    """Start the span of a step on this worker, as a child of the span its message carried, else of the
    execution's."""
    tracing = tracer()
    if tracing is None:
        return None
    parent = carried or grant.traceparent
    return tracing.start_span(
        f"step {task}",
        context=_context_of(parent),
        kind=SpanKind.CONSUMER,
        attributes={
            "messaging.system": "celery",
            "messaging.destination.name": grant.queue,
            "sluicegate.execution.id": grant.execution_id,
            "sluicegate.flow": grant.flow,
            "sluicegate.phase": grant.phase,
            "sluicegate.step": grant.step,
            "sluicegate.priority": PRIORITY_NAMES.get(grant.priority, str(grant.priority)),
            "sluicegate.lease.id": str(grant.lease_id),
            "sluicegate.worker": worker,
            "host.name": socket.gethostname(),
        },
    )


def inside(span: Span | None) -> AbstractContextManager[object]:
    """Make it the current span, the parent of spans started meanwhile."""
    if span is None:
        return nullcontext()
    return trace.use_span(span, record_exception=False, set_status_on_exception=False)


def step_ended(span: Span | None, outcome: str | None, result: Result) -> None:
    """End the span of a step; `outcome` is that of its attempt, None if the lease was no longer held."""
    if span is None:
        return
    span.set_attribute("sluicegate.outcome", outcome or "refused")
    if isinstance(result, Failed):
        span.set_attribute("error.type", result.kind)
        span.set_status(Status(StatusCode.ERROR, result.kind))
    span.end()


def _context_of(traceparent: str) -> Context:
    """The remote parent named by a header; an unreadable one starts a new trace."""
    return _propagator.extract({HEADER: traceparent}, Context())


def _links(grants: Sequence[Grant]) -> list[Link]:
    named = dict.fromkeys(grant.traceparent for grant in grants if grant.traceparent)
    spans = (trace.get_current_span(_context_of(parent)) for parent in [*named][:LINKS])
    return [Link(span.get_span_context()) for span in spans if span.get_span_context().is_valid]


def _configure_once() -> None:
    """Set up what the settings ask for; other threads wait for it. A forked child continues with its
    parent's: the SDK renews its thread after a fork."""
    global _configured
    with _configuring:
        if not _configured and observability_settings().otlp_endpoint:
            _configure()
        _configured = True


def _configure() -> None:
    global _processor
    if importlib.util.find_spec("opentelemetry.sdk") is None:
        logger.warning(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but nothing is traced: pip install 'sluicegate[telemetry]'"
        )
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    name = os.environ.get("OTEL_SERVICE_NAME", "sluicegate")
    resource = Resource.create({"service.name": name, "host.name": socket.gethostname()})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    # A process that ends waits for its last batches: four at most, as the exporter buffers no more spans.
    seconds = observability_settings().otlp_timeout
    _processor = BatchSpanProcessor(OTLPSpanExporter(timeout=seconds, headers=_headers()))
    provider.add_span_processor(_processor)
    trace.set_tracer_provider(provider)
    atexit.register(stop)


def _headers() -> Mapping[str, str] | None:
    """The exporter would read them from the environment, where a worker keeps no secrets."""
    from opentelemetry.util.re import parse_env_headers

    config = observability_settings()
    text = config.otlp_traces_headers.get_secret_value() or config.otlp_headers.get_secret_value()
    return parse_env_headers(text, liberal=True) if text else None
