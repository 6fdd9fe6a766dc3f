"""Traces by OpenTelemetry: an enqueue, each decision that starts something, each step.

An execution remembers the trace it was enqueued in, and every step of it is a child there, whichever
worker runs it. Spans tell ids, names and counts; never keys, payloads, messages of errors, or text.

Nothing is set up unless an endpoint is (`OTEL_EXPORTER_OTLP_ENDPOINT`) or the program that runs us has set
a tracer provider of its own; without one no span is made.
"""

from __future__ import annotations

import atexit
import importlib.util
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from queuemgr.base import process_state
from queuemgr.base.config import observability_settings
from queuemgr.base.redaction import register_secret
from queuemgr.flows.flow import PRIORITY_NAMES
from queuemgr.flows.outcomes import Failed, Result
from queuemgr.lifecycle.leases import Grant
from queuemgr.lifecycle.scheduler import GrantResult
from queuemgr.models import Execution

logger = logging.getLogger(__name__)

HEADER = "traceparent"
"""The header of a message that carries the trace (W3C Trace Context)."""

LINKS = 32
"""Executions a decision links to, at most."""

SEND_SECONDS = "3"
"""How long sending a batch may take, tries included (`OTEL_EXPORTER_OTLP_TIMEOUT` sets another). A process
that ends waits for its last ones: four at most, by the exporter's own bound of spans kept."""

_propagator = TraceContextTextMapPropagator()
LOOK_SECONDS = 1.0
"""How often a process that traces nothing looks whether somebody has set a provider: asking at each step
would cost more than all the rest."""

_none_until = 0.0
_configuring = threading.Lock()
_configured = False
_processor: Any = None
_tracer: tuple[Any, Tracer] | None = None


def tracer() -> Tracer | None:
    """The tracer of this process; None where nothing is traced."""
    global _tracer, _none_until
    if time.monotonic() < _none_until:
        return None
    if not _configured:
        _configure_once()
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        _none_until = time.monotonic() + LOOK_SECONDS
        return None
    if _tracer is None or _tracer[0] is not provider:
        _tracer = provider, provider.get_tracer("queuemgr")
    return _tracer[1]


def stop() -> None:
    """Send what is left, in bounded time; for a process about to end. Spans made later are dropped."""
    global _processor
    if _processor is not None:
        _processor.shutdown()
        _processor = None


def _reset() -> None:
    global _tracer, _none_until, _configured
    stop()
    _tracer, _none_until, _configured = None, 0.0, False


process_state.register(_reset)


@contextmanager
def enqueuing(flow: str, rows: Sequence[Execution]) -> Iterator[Span | None]:
    """A span around storing these executions, which remember it."""
    tracing = tracer()
    if tracing is None:
        yield None
        return
    about = {"sluicegate.flow": flow, "sluicegate.executions": len(rows)}
    with _span(tracing, f"enqueue {flow}", SpanKind.PRODUCER, about) as span:
        carrier: dict[str, str] = {}
        _propagator.inject(carrier)
        for row in rows:
            row.traceparent = carrier.get(HEADER, "")
        yield span


def record_decision(began: float, granted: GrantResult) -> None:
    """A span of a decision that started something, from `began` (`time.time()`) until now."""
    tracing = tracer() if granted.assigned or granted.to_send else None
    if tracing is None:
        return
    starts = [*granted.assigned, *granted.to_send]
    span = tracing.start_span(
        "dispatch",
        kind=SpanKind.INTERNAL,
        start_time=int(began * 1e9),
        links=_links(starts),
        attributes={
            "sluicegate.starts": len(starts),
            "sluicegate.assigned": len(granted.assigned),
            "sluicegate.sent": len(granted.to_send),
        },
    )
    span.end()


def headers(grant: Grant) -> dict[str, str]:
    """What a message about this grant carries."""
    return {HEADER: grant.traceparent} if grant.traceparent else {}


def step_began(grant: Grant, task: str, carried: str | None = None) -> Span | None:
    """The span of a step that begins, a child of what its message carried, else of its enqueue."""
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
        },
    )


def inside(span: Span | None) -> AbstractContextManager[object]:
    """Make it the span that others made meanwhile are children of."""
    if span is None:
        return nullcontext()
    return trace.use_span(span, record_exception=False, set_status_on_exception=False)


def step_ended(span: Span | None, outcome: str | None, result: Result) -> None:
    """End a step's span: `outcome` as its attempt says, None where the lease was no longer held."""
    if span is None:
        return
    span.set_attribute("sluicegate.outcome", outcome or "refused")
    if isinstance(result, Failed):
        span.set_attribute("error.type", result.kind)
        span.set_status(Status(StatusCode.ERROR, result.kind))
    span.end()


@contextmanager
def _span(
    tracing: Tracer, name: str, kind: SpanKind, attributes: Mapping[str, Any]
) -> Iterator[Span]:
    """The current span for a while; an error is told by its class alone."""
    with tracing.start_as_current_span(
        name,
        kind=kind,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except Exception as error:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(Status(StatusCode.ERROR))
            raise


def _context_of(traceparent: str) -> Context:
    """The remote parent a header names, or none: what cannot be read begins a trace of its own."""
    return _propagator.extract({HEADER: traceparent}, Context())


def _links(grants: Sequence[Grant]) -> list[Link]:
    named = dict.fromkeys(grant.traceparent for grant in grants if grant.traceparent)
    spans = (trace.get_current_span(_context_of(parent)) for parent in [*named][:LINKS])
    return [Link(span.get_span_context()) for span in spans if span.get_span_context().is_valid]


def _configure_once() -> None:
    """Set up what the settings ask for; slots that come meanwhile wait for it. A forked child of a process
    that has done so goes on with it: the SDK renews its thread after a fork."""
    global _configured
    with _configuring:
        if not _configured:
            _configure()
            _configured = True


def _configure() -> None:
    global _processor
    if not observability_settings().otlp_endpoint:
        return
    if importlib.util.find_spec("opentelemetry.sdk") is None:
        logger.warning(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but nothing is traced: install the extra `telemetry`"
        )
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    _keep_headers_secret()
    resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "sluicegate")})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    seconds = float(os.environ.get("OTEL_EXPORTER_OTLP_TIMEOUT", SEND_SECONDS))
    _processor = BatchSpanProcessor(OTLPSpanExporter(timeout=seconds))
    provider.add_span_processor(_processor)
    trace.set_tracer_provider(provider)
    atexit.register(stop)


def _keep_headers_secret() -> None:
    """What is sent along with traces is most often a key."""
    for name in ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"):
        for pair in os.environ.get(name, "").split(","):
            register_secret(pair.partition("=")[2].strip())
