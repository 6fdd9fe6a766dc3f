"""Traces: one for each execution, a decision links to what it starts, nothing private leaves."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from queuemgr.base.errors import BadInput
from queuemgr.flows.call import Call
from queuemgr.flows.flow import NewExecution
from queuemgr.flows.outcomes import Done, Failed
from queuemgr.lifecycle import tracing
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.models import Execution
from queuemgr.operations import batches

pytestmark = pytest.mark.django_db(transaction=True)
Played = Callable[..., Any]
Probes = Callable[..., list[Execution]]


class Recorder:
    """The spans ended so far, by name."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def __call__(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def text(self) -> str:
        return "".join(str(span.to_json()) for span in self._exporter.get_finished_spans())


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield Recorder(exporter)
    provider.shutdown()


def ids(span: ReadableSpan) -> tuple[int, int]:
    assert span.context
    return span.context.trace_id, span.context.span_id


def parent(span: ReadableSpan) -> tuple[int, int] | None:
    return (span.parent.trace_id, span.parent.span_id) if span.parent else None


def is_sampled(execution: Execution) -> bool:
    return bool(int(execution.traceparent[-2:], 16) & 1)


def test_each_execution_has_a_trace_of_its_own_linked_to_its_enqueue(probes: Probes, spans: Recorder) -> None:
    executions = probes(3)
    (enqueue,) = spans("enqueue probe")
    own = spans("execution probe")
    assert len({ids(span)[0] for span in (enqueue, *own)}) == 4
    assert [parent(span) for span in own] == [None] * 3
    for span in own:
        assert [(link.context.trace_id, link.context.span_id) for link in span.links] == [ids(enqueue)]
        assert span.attributes == {"sluicegate.flow": "probe", "sluicegate.priority": "normal"}
    begun = {f"00-{trace_id:032x}-{span_id:016x}-" for trace_id, span_id in map(ids, own)}
    assert {execution.traceparent[:-2] for execution in executions} == begun
    assert all(map(is_sampled, executions))
    assert (enqueue.kind, enqueue.attributes) == (
        SpanKind.PRODUCER,
        {"sluicegate.flow": "probe", "sluicegate.executions": 3, "sluicegate.new": 3},
    )


def test_what_was_enqueued_before_keeps_its_trace_and_gets_no_second(spans: Recorder) -> None:
    twice = [NewExecution("one"), NewExecution("two"), NewExecution("one")]
    enqueue_many("probe", twice)
    before = dict(Execution.objects.values_list("key", "traceparent"))
    enqueue_many("probe", [NewExecution("one"), NewExecution("two")])
    assert dict(Execution.objects.values_list("key", "traceparent")) == before
    begun = {f"{span_id:016x}" for _, span_id in map(ids, spans("execution probe"))}
    assert {text.split("-")[2] for text in before.values()} == begun


def test_enqueuing_inside_a_span_of_the_callers_is_a_child_of_it(probes: Probes, spans: Recorder) -> None:
    with trace.get_tracer_provider().get_tracer("app").start_as_current_span("request"):
        probes(1)
    (request,), (enqueue,) = spans("request"), spans("enqueue probe")
    assert parent(enqueue) == ids(request)


def test_a_decision_that_starts_work_is_a_span_linked_to_the_traces_of_what_it_starts(
    played: Played, probes: Probes, spans: Recorder
) -> None:
    worker = played(slots=2)
    probes(3)
    own, (decision,) = spans("execution probe"), spans("dispatch")
    assert decision.attributes == {
        "sluicegate.starts": 2, "sluicegate.assigned": 0, "sluicegate.sent": 2,
    }  # fmt: skip
    linked = {(link.context.trace_id, link.context.span_id) for link in decision.links}
    assert len(linked) == 2
    assert linked < set(map(ids, own))
    worker.end(worker.begin_all()[0])
    _, at_finish = spans("dispatch")
    assert at_finish.attributes
    assert at_finish.attributes["sluicegate.assigned"] == 1


def test_a_decision_that_starts_nothing_makes_no_span(probes: Probes, spans: Recorder) -> None:
    probes(1)
    assert spans("dispatch") == []


def test_a_step_is_a_child_of_its_execution_however_it_came_to_the_worker(
    played: Played, probes: Probes, spans: Recorder
) -> None:
    worker = played(slots=1)
    probes(2)
    (grant,) = worker.begin_all()
    (handed,) = worker.end(grant)
    for one, carried in ((grant, grant.traceparent), (handed, None)):
        span = tracing.step_began(one, "queuemgr.probe", carried, worker="w@here")
        with tracing.inside(span):
            trace.get_tracer_provider().get_tracer("app").start_span("inner").end()
        tracing.step_ended(span, "done", Done())
    steps, own = spans("step queuemgr.probe"), {ids(span) for span in spans("execution probe")}
    assert {parent(step) for step in steps} == own
    assert len(own) == 2
    assert [parent(inner) for inner in spans("inner")] == [ids(step) for step in steps]
    assert steps[0].attributes == {
        "messaging.system": "celery",
        "messaging.destination.name": "prep.normal",
        "sluicegate.execution.id": grant.execution_id,
        "sluicegate.flow": "probe",
        "sluicegate.phase": "prep",
        "sluicegate.step": "probe",
        "sluicegate.priority": "normal",
        "sluicegate.lease.id": str(grant.lease_id),
        "sluicegate.worker": "w@here",
        "host.name": socket.gethostname(),
        "sluicegate.outcome": "done",
    }


def test_the_trace_a_message_carries_wins_over_the_one_of_the_row(
    played: Played, probes: Probes, spans: Recorder
) -> None:
    worker = played()
    probes(1)
    (grant,) = worker.begin_all()
    carried = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
    tracing.step_ended(tracing.step_began(grant, "t", carried), None, Done())
    (step,) = spans("step t")
    assert parent(step) == (0x0123456789ABCDEF0123456789ABCDEF, 0x0123456789ABCDEF)
    assert step.attributes
    assert step.attributes["sluicegate.outcome"] == "refused"


@pytest.mark.parametrize("odd", ["", "nonsense", "00-0-0-01", "00-" + "0" * 32 + "-" + "0" * 16 + "-01"])
def test_an_unreadable_traceparent_starts_a_new_trace(
    played: Played, probes: Probes, spans: Recorder, odd: str
) -> None:
    worker = played()
    probes(1)
    Execution.objects.update(traceparent=odd[:55])
    (grant,) = worker.begin_all()
    tracing.step_ended(tracing.step_began(grant, "t", odd), "done", Done())
    assert [parent(step) for step in spans("step t")] == [None]


def test_no_span_carries_a_key_a_payload_or_an_error_message(
    played: Played, probes: Probes, spans: Recorder
) -> None:
    worker = played()
    probes(1, prefix="private-key-", note="private payload")
    (grant,) = worker.begin_all()
    failed = Failed("network", "private message")
    tracing.step_ended(tracing.step_began(grant, "t"), "retried", failed)
    with pytest.raises(BadInput):
        enqueue_many("probe", [NewExecution("private" * 50, {})])
    with pytest.raises(RuntimeError, match="private"), tracing.enqueuing("probe", []):
        raise RuntimeError("private reason")
    (step,) = spans("step t")
    assert (step.status.status_code, step.status.description) == (StatusCode.ERROR, "network")
    assert step.attributes
    assert step.attributes["error.type"] == "network"
    assert json.loads(str(step.to_json()))["events"] == []
    assert "private" not in spans.text()


def test_without_an_endpoint_nothing_is_traced_or_set_up(
    played: Played, probes: Probes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "_configured", False)
    worker = played()
    (execution,) = probes(1)
    (grant,) = worker.begin_all()
    assert (tracing.tracer(), tracing._processor) == (None, None)
    assert execution.traceparent == ""
    assert tracing.headers(grant) == {}
    assert tracing.step_began(grant, "t") is None
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def test_without_the_sdk_an_endpoint_is_answered_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, configure: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    configure()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(tracing, "_configured", False)
    monkeypatch.setattr(tracing.importlib.util, "find_spec", lambda name: None)
    for _ in range(2):
        assert tracing.tracer() is None
    assert [record.message for record in caplog.records] == [
        "OTEL_EXPORTER_OTLP_ENDPOINT is set, but nothing is traced: pip install 'sluicegate[telemetry]'"
    ]


def test_a_sampler_that_leaves_an_enqueue_out_leaves_its_steps_out(
    played: Played, probes: Probes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(0)), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    worker = played()
    (execution,) = probes(1)
    assert not is_sampled(execution)
    (grant,) = worker.begin_all()
    tracing.step_ended(tracing.step_began(grant, "t", grant.traceparent), "done", Done())
    assert exporter.get_finished_spans() == ()


def test_a_decision_span_lasts_as_long_as_the_decision(
    played: Played, probes: Probes, spans: Recorder
) -> None:
    played()
    before = time.time_ns()
    probes(1)
    (decision,) = spans("dispatch")
    assert decision.start_time is not None
    assert decision.end_time is not None
    assert before <= decision.start_time <= decision.end_time <= time.time_ns()


def test_the_callback_of_a_batch_has_a_trace_of_its_own_too(played: Played, spans: Recorder) -> None:
    batch = batches.open_batch("b", "probe", None, callbacks={"on_complete": Call("probe", {}, "after")})
    batches.close(batch, None)
    dispatch()
    (enqueue,), (own,) = spans("enqueue probe"), spans("execution probe")
    assert Execution.objects.get(key="after").traceparent.startswith(f"00-{ids(own)[0]:032x}-")
    assert [link.context.span_id for link in own.links] == [ids(enqueue)[1]]
