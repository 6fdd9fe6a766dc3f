"""A web server for tests, and a fake worker that runs the steps of papers for real."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pipeline import intake
from pipeline.models import FLOW
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.outcomes import Result
from queuemgr.lifecycle.enqueue import Enqueued, enqueue_many
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import Attempt
from tests.integration.pipeline.step_fixtures import run_step

STEPS = ["resolve", "fetch", "extract", "analyse", "report"]


class Site:
    """A web server for tests: papers by path, and a model with a list of answers."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.answers: list[str | int] = []
        self.requested: list[str] = []
        self.on_request: Callable[[], object] = lambda: None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.02])
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self) -> tuple[int, bytes]:
        answer = self.answers.pop(0)
        if isinstance(answer, int):
            return answer, b'{"error": {"message": "overloaded"}}'
        choice = {"finish_reason": "stop", "message": {"content": answer}}
        return 200, json.dumps({"model": "m-1", "choices": [choice]}).encode()

    def _handler(site) -> type[BaseHTTPRequestHandler]:  # `self` is the handler
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = site.pages.get(self.path)
                self._give(*((404, b"none") if page is None else (200, page)))

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self._give(*site._answer())

            def _give(self, status: int, body: bytes) -> None:
                site.requested.append(self.path)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[:100])
                site.on_request()
                self.wfile.write(body[100:])

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


class Papers:
    """A fake worker that runs the steps of papers for real."""

    def __init__(self, worker: Any, files: Path) -> None:
        self.worker, self.files = worker, files

    def parse_item(self, *items: object) -> Enqueued:
        return enqueue_many(FLOW, [intake.parse_item(str(item)) for item in items])

    def run(self, grant: Grant, signal: AbortSignal | None = None) -> Result:
        return run_step(grant, signal)

    def work(self, until: str = "") -> Grant | None:
        """Run all steps, or stop at the begin of this one and return its lease."""
        grants = self.worker.begin_all()
        while grants:
            grant = grants.pop()
            if grant.step == until:
                return grant
            grants += self.worker.end(grant, self.run(grant))
        return None

    def begun(self, step: str) -> Grant:
        grant = self.work(until=step)
        assert grant is not None, self.outcomes()
        return grant

    def outcomes(self) -> list[tuple[str, str]]:
        return list(Attempt.objects.order_by("pk").values_list("step", "outcome"))

    def stored(self) -> set[str]:
        """Every file on the storage."""
        return {str(f.relative_to(self.files)) for f in self.files.rglob("*") if f.is_file()}
