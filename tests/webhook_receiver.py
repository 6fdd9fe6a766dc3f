"""A receiver of webhooks: a real HTTP server that answers as configured, keeps what it got, and verifies
signatures by itself, as the specification says."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


@dataclass
class Received:
    """One request, its body unread as JSON."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def is_signed_with(self, secret: str) -> bool:
        key = base64.b64decode(secret.removeprefix("whsec_"))
        text = f"{self.id}.{self.headers['webhook-timestamp']}.".encode() + self.body
        wanted = base64.b64encode(hmac.digest(key, text, hashlib.sha256)).decode()
        given = [part.split(",", 1) for part in self.headers["webhook-signature"].split(" ")]
        return any(version == "v1" and hmac.compare_digest(wanted, value) for version, value in given)


@dataclass
class Receiver:
    """`answers` are the statuses, or `stall`, of the next requests; then each is 204."""

    url: str = ""
    port: int = 0
    answers: list[int | str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    requests: list[Received] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    def next_answer(self) -> int | str:
        return self.answers.pop(0) if self.answers else 204


@contextmanager
def receiver() -> Iterator[Receiver]:
    state = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            names = {name.lower(): value for name, value in self.headers.items()}
            state.requests.append(Received(self.path, names, body))
            answer = state.next_answer()
            if answer == "stall":  # a byte at a time, so that no single read times out
                while not state.released.wait(0.05):
                    self.wfile.write(b"H")
                return
            self.send_response(int(answer))
            for name, value in state.headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.port = server.server_address[1]
    state.url = f"http://127.0.0.1:{state.port}/hooks"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        state.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
