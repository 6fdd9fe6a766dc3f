"""A vision endpoint that recognises which page a picture shows, and PDFs with such pages.

Page n of `numbered_pages` is 400 + n points wide and 1288 high, so its picture has as many pixels:
the endpoint reads the number off the picture's size, and a turned picture off its being wide.
"""

from __future__ import annotations

import base64
import io
import json
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from PIL import Image

from tests.pdf_builder import pdf_of, stream

WIDTH, HEIGHT = 400, 1288

FACTS = (
    "---\nprimary_language: en\nis_rotation_valid: {valid}\nrotation_correction: {rotation}\n"
    "is_table: False\nis_diagram: False\n---\n"
)


def numbered_pages(count: int, blank: tuple[int, ...] = ()) -> bytes:
    """`count` pages, with ink on all but the blank ones."""
    kids = b" ".join(b"%d 0 R" % (3 + n) for n in range(1, count + 1))
    ink, none = count + 4, count + 5
    pages = [
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Contents %d 0 R >>"
        % (WIDTH + n, HEIGHT, none if n in blank else ink)
        for n in range(1, count + 1)
    ]
    return pdf_of(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Count %d /Kids [%s] >>" % (count, kids),
            b"null",
            *pages,
            stream(b"50 50 200 300 re f"),
            stream(b""),
        ]
    )


def noisy_pages(count: int) -> bytes:
    """`count` pages with one small incompressible picture: quick to render, but
    tens of kilobytes each."""
    side = 120
    noise = random.Random(1).randbytes(3 * side * side)
    kids = b" ".join(b"%d 0 R" % (5 + n) for n in range(count))
    page = (
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Contents 3 0 R "
        b"/Resources << /XObject << /P 4 0 R >> >> >>" % (side, side)
    )
    picture = b"/Type /XObject /Subtype /Image /Width %d /Height %d" % (side, side)
    return pdf_of(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Count %d /Kids [%s] >>" % (count, kids),
            stream(b"%d 0 0 %d 0 0 cm /P Do" % (side, side)),
            stream(noise, picture + b" /ColorSpace /DeviceRGB /BitsPerComponent 8"),
            *[page] * count,
        ]
    )


@dataclass(frozen=True)
class PageRequest:
    """One request as the endpoint received it; `at`: seconds of a monotonic clock."""

    page: int
    turned: bool
    body: dict[str, Any]
    at: float
    form: str
    size: tuple[int, int]


Respond = Callable[[PageRequest], "Answer"]


@dataclass(frozen=True)
class Answer:
    """A response of the endpoint; `body`: bytes, or a value sent as JSON."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0


def text(content: str, *, valid: bool = True, rotation: int = 0, delay: float = 0.0) -> Answer:
    """A complete answer in olmOCR's format."""
    return plain(FACTS.format(valid=valid, rotation=rotation) + content, delay=delay)


def plain(content: Any, finish: str = "stop", delay: float = 0.0, **message: Any) -> Answer:
    choice = {"finish_reason": finish, "message": {"content": content, **message}}
    return Answer({"model": "m", "choices": [choice], "usage": {"completion_tokens": 9}}, delay=delay)


def error(status: int, message: str = "no", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer({"error": {"message": message}}, status, named)


class VisionEndpoint:
    """Answers `page n` unless scripted otherwise; records the requests and how many
    were running at once."""

    def __init__(self) -> None:
        self.requests: list[PageRequest] = []
        self.most_at_once = 0
        self.next_for: dict[int, list[Answer]] = defaultdict(list)
        self.usual: Respond = lambda request: text(f"page {request.page}")
        self._under_way = 0
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/v1"

    @contextmanager
    def serving(self) -> Iterator[VisionEndpoint]:
        thread = threading.Thread(target=self._server.serve_forever, args=[0.02])
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def pages(self) -> list[int]:
        return [request.page for request in self.requests]

    def requests_for(self, page: int) -> list[PageRequest]:
        return [request for request in self.requests if request.page == page]

    def _answer(self, raw: bytes) -> Answer:
        request = parse_request(json.loads(raw))
        with self._lock:
            self.requests.append(request)
            waiting = self.next_for[request.page]
            answer = waiting.pop(0) if waiting else None
            self._under_way += 1
            self.most_at_once = max(self.most_at_once, self._under_way)
        answer = answer or self.usual(request)
        time.sleep(answer.delay)
        with self._lock:
            self._under_way -= 1
        return answer

    def _handler(endpoint) -> type[BaseHTTPRequestHandler]:  # `self` is the handler
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                answer = endpoint._answer(self.rfile.read(int(self.headers["Content-Length"])))
                body = answer.body
                raw = body if isinstance(body, bytes) else json.dumps(body).encode()
                try:
                    self.send_response(answer.status)
                    for name, value in answer.headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(raw)))
                    self.end_headers()
                    self.wfile.write(raw)
                except OSError:
                    self.close_connection = True  # the client hung up, as the test wants

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def parse_request(body: dict[str, Any]) -> PageRequest:
    """Which page a request is about, from its picture."""
    prompt, picture = body["messages"][0]["content"]
    assert prompt["type"] == "text"
    head, _, data = picture["image_url"]["url"].partition(";base64,")
    image = Image.open(io.BytesIO(base64.b64decode(data)))
    turned = image.width > image.height
    page = (image.height if turned else image.width) - WIDTH
    form = head.removeprefix("data:image/")
    return PageRequest(page, turned, body, time.monotonic(), form, image.size)
