"""However little of an answer arrives, what it unpacks to is bounded, whoever reads it."""

from __future__ import annotations

import ast
import asyncio
import gzip
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import pipeline
from pipeline.steps.http.client import HttpClient
from pipeline.steps.llm import client as chat
from pipeline.steps.llm.client import MAX_ANSWER_BYTES, Endpoint, Usage
from pipeline.steps.ocr import vision_client
from pipeline.steps.pdf.page_outcomes import PageFailed
from pipeline.steps.resolve.sources import request
from queuemgr import StepFailed
from queuemgr.flows.abort_signal import NEVER

UNPACKED = 8 * MAX_ANSWER_BYTES
MOST_IN_MEMORY = 3 * MAX_ANSWER_BYTES


@cache
def once() -> bytes:
    return gzip.compress(b'{"choices": "' + b" " * UNPACKED + b'"}')


PACKED: dict[str, tuple[str, Callable[[], bytes]]] = {
    "gzip": ("gzip", once),
    "x-gzip": ("x-gzip", once),
    "deflate": ("deflate", lambda: zlib.compress(b" " * UNPACKED)),
    "twice": ("gzip, gzip", lambda: gzip.compress(once())),
    "twice, differently": ("gzip, deflate", lambda: zlib.compress(once())),
    "three times": ("gzip, gzip, gzip", lambda: gzip.compress(gzip.compress(once()))),
    "more often": (", ".join(["gzip"] * 30), once),
    "in many members": ("gzip", lambda: gzip.compress(b" " * (1 << 20)) * (UNPACKED >> 20)),
    "cut off": ("gzip", lambda: once()[:-20]),
    "damaged": ("gzip", lambda: b"\x1f\x8b" + b"x" * 1_000),
    "brotli": ("br", once),
    "by nobody": ("no-such", once),
}
"""Encodings, and what makes the body: packing takes a while, and every process of the tests imports this."""
SOUND = gzip.compress(b'{"choices": [{"message": {"content": "text"}, "finish_reason": "stop"}]}')


class Packer(ThreadingHTTPServer):
    """Answers everything with one packed body."""

    daemon_threads = True
    encoding, body = "", b""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Packer

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response_only(200)
        self.send_header("Content-Encoding", self.server.encoding)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    do_GET = do_POST


@pytest.fixture
def packer() -> Iterator[Packer]:
    with Packer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.02])
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask_model(packer: Packer) -> str:
    async def answer() -> str:
        async with chat.connected(Endpoint(f"{packer.url}/v1", "m", "", 30), Usage()) as model:
            return (await model.ask([{"role": "user", "content": "?"}], 100)).text

    return asyncio.run(answer())


def ask_about_page(packer: Packer) -> str:
    async def text() -> str:
        client = vision_client.connected(Endpoint(f"{packer.url}/v1", "m", "", 30), Usage())
        async with client.http:
            return await client.ask(b"picture", 100, 0.0)

    return asyncio.run(text())


def ask_source(packer: Packer) -> str:
    http = HttpClient()
    try:
        return request.get(packer.url, {}, 30, http, NEVER).body.decode()
    finally:
        http.close()


READERS = (ask_model, ask_about_page, ask_source)
"""All read by the same bounded body, as the last test below sees to: the first with whatever there is."""
EVERY = [
    pytest.param(
        reader,
        packed,
        marks=[] if reader is READERS[0] or packed in ("gzip", "twice") else [pytest.mark.slow_proof],
    )
    for reader in READERS
    for packed in PACKED
]


@pytest.mark.parametrize(("reader", "packed"), EVERY)
def test_an_answer_that_unpacks_to_too_much_is_refused(
    packer: Packer, reader: Callable[[Packer], str], packed: str
) -> None:
    packer.encoding, pack = PACKED[packed]
    packer.body = pack()
    tracemalloc.start()
    try:
        with pytest.raises((StepFailed, PageFailed)) as refused:
            reader(packer)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert refused.value.kind == "bad_answer"
    assert most < MOST_IN_MEMORY, f"{most:,} bytes for the {len(packer.body):,} that arrived"


@pytest.mark.parametrize("reader", READERS)
def test_an_answer_may_be_packed(packer: Packer, reader: Callable[[Packer], str]) -> None:
    packer.encoding, packer.body = "gzip", SOUND
    assert "text" in reader(packer)


def test_no_other_code_has_httpx_unpack_a_body() -> None:
    """A body that httpx reads as a whole, or gets to make a response of, it unpacks at once."""
    unpacking = {"aread", "aiter_bytes", "aiter_text", "aiter_lines", "iter_bytes", "get", "post", "request"}
    found = []
    for path in Path(pipeline.__path__[0]).rglob("*.py"):
        source = path.read_text()
        if "httpx" not in source or path.name == "bounded_body.py":
            continue
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            of, name = ast.unparse(node.func.value), node.func.attr
            if (of == "httpx" and name == "Response") or (
                name in unpacking and of.rpartition(".")[2] in ("client", "_client", "http", "response")
            ):
                found.append(f"{path.name}:{node.lineno} {of}.{name}")
    assert found == []
