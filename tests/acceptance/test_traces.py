"""Traces through real processes: a command, the broker, a worker's pool, and a receiver of ours."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet


class Receiver:
    """An OTLP receiver that keeps what it is sent."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.services: set[str] = set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.take(self.path, self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def take(self, path: str, body: bytes) -> None:
        assert path == "/v1/traces"
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.services |= {
                a.value.string_value for a in resource.resource.attributes if a.key == "service.name"
            }
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    made = Receiver()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
    yield made
    made.close()


def attributes(span: Any) -> dict[str, Any]:
    return {a.key: a.value.string_value or a.value.int_value for a in span.attributes}


def the_message_waiting(fleet: Fleet) -> dict[str, Any]:
    """The headers of the one message in the queue of normal probes, which nobody takes."""
    fleet.wait_until("a message", lambda: fleet.redis().llen("prep.normal") == 1)
    (raw,) = fleet.redis().lrange("prep.normal", 0, -1)  # type: ignore[misc]  # its client is not async
    message = json.loads(raw)
    assert base64.b64decode(message["body"])
    return dict(message["headers"])


def stored_traces(fleet: Fleet) -> set[str]:
    """The traces of the executions, as their rows say: trace and span, in hex."""
    rows = fleet.database.rows("SELECT traceparent FROM queuemgr_execution")
    return {traceparent[3:52] for (traceparent,) in rows}


def trace_and_span(span: Any) -> str:
    return f"{span.trace_id.hex()}-{span.span_id.hex()}"


def test_a_message_carries_the_trace_of_its_execution(
    receiver: Receiver, make_fleet: MakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    fleet = make_fleet()
    fleet.enlist_nobody("prep.normal", slots=1)
    fleet.enqueue(1)
    carried = the_message_waiting(fleet)["traceparent"]
    fleet.wait_until("the command's spans", lambda: receiver.named("execution probe"))
    (execution,) = receiver.named("execution probe")
    assert {carried[3:52]} == stored_traces(fleet) == {trace_and_span(execution)}


@pytest.mark.parametrize("pool", ["prefork", pytest.param("threads", marks=pytest.mark.slow_proof)])
def test_each_step_of_a_worker_is_exported_as_a_child_span_of_its_execution(
    receiver: Receiver, make_fleet: MakeFleet, monkeypatch: pytest.MonkeyPatch, pool: str
) -> None:
    """Also those made just before the worker stops: its batch is a minute long."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    fleet = make_fleet()
    worker = fleet.start_worker(2, pool)
    fleet.enqueue(3)
    fleet.wait_until_done(3)
    worker.stop()
    steps = receiver.named("step probe.run")
    assert len(steps) == 3
    assert {f"{s.trace_id.hex()}-{s.parent_span_id.hex()}" for s in steps} == stored_traces(fleet)
    assert len({s.trace_id for s in steps}) == 3, "one trace for each execution"
    assert {attributes(step)["sluicegate.outcome"] for step in steps} == {"done"}
    assert {attributes(step)["sluicegate.worker"] for step in steps} == {f"worker@{socket.gethostname()}"}
    assert {attributes(step)["host.name"] for step in steps} == {socket.gethostname()}
    assert len({attributes(step)["sluicegate.lease.id"] for step in steps}) == 3
    assert receiver.named("dispatch")
    assert receiver.services == {"sluicegate"}


@pytest.mark.slow_proof
def test_an_unreachable_receiver_delays_neither_work_nor_shutdown(
    monkeypatch: pytest.MonkeyPatch, make_fleet: MakeFleet
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    fleet = make_fleet()
    fleet.tolerate("export", "Connection refused", "Max retries", "Transient error")
    worker = fleet.start_worker(2)
    fleet.enqueue(3)
    fleet.wait_until_done(3)
    worker.stop()
    assert not worker.alive
