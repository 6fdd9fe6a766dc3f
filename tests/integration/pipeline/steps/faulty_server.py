"""A real HTTP server that misbehaves on request: each path is one way to go wrong."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
import struct
import threading
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

MIB = 1024 * 1024


def pdf(size: int = 4096, name: str = "") -> bytes:
    """Bytes that begin and end as a PDF does."""
    start, end = b"%PDF-1.7\n%" + name.encode() + b"\n", b"\n%%EOF\n"
    return start + b"x" * (size - len(start) - len(end)) + end


@dataclass
class Request:
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]

    def get(self, name: str, default: str = "") -> str:
        return self.query.get(name, [default])[0]


class Answer:
    """The writing side of one connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.keep = self.closes_at_next = False

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self, status: int, *headers: tuple[str, object]) -> None:
        lines = [f"HTTP/1.1 {status} Faulty", *(f"{name}: {value}" for name, value in headers)]
        await self.send("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def whole(self, body: bytes, kind: str = "application/pdf", *headers: tuple[str, object]) -> None:
        await self.head(200, ("Content-Type", kind), ("Content-Length", len(body)), *headers)
        await self.send(body)
        self.keep = True

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def reset(self) -> None:
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Fault = Callable[[Request, Answer], Awaitable[None]]
FAULTS: dict[str, Fault] = {}


def at(path: str) -> Callable[[Fault], Fault]:
    def register(fault: Fault) -> Fault:
        FAULTS[path] = fault
        return fault

    return register


@at("/pdf")
async def _pdf(request: Request, answer: Answer) -> None:
    body = b" " * int(request.get("lead", "0")) + pdf(name=request.get("id"))
    await answer.whole(body, request.get("type", "application/pdf"))


@at("/pdf-and-close")
async def _pdf_and_close(request: Request, answer: Answer) -> None:
    """Seems to keep the connection, and closes it at the moment the next request comes."""
    await answer.whole(pdf())
    answer.closes_at_next = True


@at("/big")
async def _big(request: Request, answer: Answer) -> None:
    size = int(request.get("mib")) * MIB
    await answer.head(200, ("Content-Length", size))
    await answer.send(b"%PDF-1.7\n" + b"x" * (MIB - 9))
    for _ in range(size // MIB - 1):
        await answer.send(b"x" * MIB)


@at("/body")
async def _body(request: Request, answer: Answer) -> None:
    await answer.whole(request.get("text").encode(), request.get("type", "application/pdf"))


@at("/status")
async def _status(request: Request, answer: Answer) -> None:
    waits = [("Retry-After", value) for value in request.query.get("retry-after", [])]
    dates = [("Date", value) for value in request.query.get("date", [])]
    await answer.head(int(request.get("code")), ("Content-Length", 0), *waits, *dates)
    answer.keep = True


@at("/stall")
async def _stall(request: Request, answer: Answer) -> None:
    await asyncio.sleep(3600)


@at("/stall-body")
async def _stall_body(request: Request, answer: Answer) -> None:
    await answer.head(200, ("Content-Length", 100_000))
    await answer.send(pdf(2048))
    await asyncio.sleep(3600)


@at("/drip")
async def _drip(request: Request, answer: Answer) -> None:
    await answer.head(200, ("Content-Length", 1_000_000))
    while True:
        await answer.send(b"%")
        await asyncio.sleep(0.05)


@at("/drip-head")
async def _drip_head(request: Request, answer: Answer) -> None:
    await answer.send(b"HTTP/1.1 200 Faulty\r\n")
    while True:
        await answer.send(b"X-More: x\r\n")
        await asyncio.sleep(0.05)


@at("/reset")
async def _reset(request: Request, answer: Answer) -> None:
    await answer.head(200, ("Content-Length", 100_000))
    await answer.send(pdf(2048))
    await asyncio.sleep(0.05)
    answer.reset()


@at("/hang-up")
async def _hang_up(request: Request, answer: Answer) -> None:
    """Closes without a word."""


@at("/cut")
async def _cut(request: Request, answer: Answer) -> None:
    await answer.head(200, ("Content-Length", 1_000_000))
    await answer.send(pdf(600_000))


@at("/cut-chunked")
async def _cut_chunked(request: Request, answer: Answer) -> None:
    await answer.head(200, ("Transfer-Encoding", "chunked"))
    await answer.chunk(pdf(2048))


@at("/gzip")
async def _gzip(request: Request, answer: Answer) -> None:
    await answer.whole(gzip.compress(pdf()), "application/pdf", ("Content-Encoding", "gzip"))


@at("/gzip-cut")
async def _gzip_cut(request: Request, answer: Answer) -> None:
    packed = gzip.compress(pdf())[:-12]
    await answer.whole(packed, "application/pdf", ("Content-Encoding", "gzip"))


@at("/packed")
async def _packed(request: Request, answer: Answer) -> None:
    encoding = ("Content-Encoding", request.get("as"))
    await answer.whole(b"not packed at all", "application/pdf", encoding)


@at("/bomb")
async def _bomb(request: Request, answer: Answer) -> None:
    """5 GiB in 5 MB; packed a second time, in a few kB."""
    body = bomb(80)
    encoding = "gzip"
    if request.get("twice"):
        body, encoding = gzip.compress(body), "gzip, gzip"
    await answer.head(200, ("Content-Length", len(body)), ("Content-Encoding", encoding))
    await answer.send(body)


def bomb(blocks: int) -> bytes:
    """A gzip stream of 64 MiB for each block. A full flush makes one block fit for repeating."""
    packer = zlib.compressobj(9, wbits=16 + zlib.MAX_WBITS)
    start = packer.compress(pdf(2048)) + packer.flush(zlib.Z_FULL_FLUSH)
    block = b"".join(packer.compress(bytes(MIB)) for _ in range(64))
    block += packer.flush(zlib.Z_FULL_FLUSH)
    return start + block * blocks


@at("/endless")
async def _endless(request: Request, answer: Answer) -> None:
    await answer.head(200, ("Transfer-Encoding", "chunked"))
    await answer.chunk(pdf(2048))
    while True:
        await answer.chunk(b"x" * 65536)


@at("/to")
async def _to(request: Request, answer: Answer) -> None:
    await answer.head(302, ("Location", request.get("url")), ("Content-Length", 0))
    answer.keep = True


@at("/loop")
async def _loop(request: Request, answer: Answer) -> None:
    await answer.head(302, ("Location", "/loop"), ("Content-Length", 0))


@at("/give-cookie")
async def _give_cookie(request: Request, answer: Answer) -> None:
    cookie = ("Set-Cookie", "reader=yes; Path=/")
    await answer.head(302, ("Location", "/want-cookie"), cookie, ("Content-Length", 0))


@at("/want-cookie")
async def _want_cookie(request: Request, answer: Answer) -> None:
    if "reader=yes" in request.headers.get("cookie", ""):
        await answer.whole(pdf())
    else:
        await answer.whole(b"<html><title>Cookies needed</title>", "text/html")


def as_asked(target: str) -> Fault:
    """What another path does, whatever its own query is."""
    parts = urlsplit(target)
    query = parse_qs(parts.query, keep_blank_values=True)

    async def fault(request: Request, answer: Answer) -> None:
        await FAULTS[parts.path](Request(request.path, query, request.headers), answer)

    return fault


class FaultyServer:
    """Serves FAULTS, and the pages `put` there, from a thread of its own."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.hits: list[str] = []
        self.seen: list[dict[str, str]] = []
        self.redirects: dict[str, str] = {}
        self._pages: dict[str, tuple[int, bytes]] = {}
        self._context = context
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> FaultyServer:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    @property
    def host(self) -> str:
        """As `trusted_hosts` spells it."""
        return f"127.0.0.1:{self.port}"

    def url(self, path: str) -> str:
        return f"{'https' if self._context else 'http'}://{self.host}{path}"

    def put(self, path: str, record: Any, status: int = 200) -> None:
        """Answer `path`, spelled as it comes over the wire, with JSON."""
        self._pages[path] = (status, json.dumps(record).encode())

    def clear(self) -> None:
        self._pages.clear()
        self.hits.clear()
        self.seen.clear()

    async def _serve(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._context)
        self.port = int(server.sockets[0].getsockname()[1])
        self._ready.set()
        await self._stopped.wait()
        server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._converse(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answer(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            try:
                await writer.wait_closed()
            except (OSError, asyncio.CancelledError):
                writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        target, headers = _parsed((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"))
        path, answer = urlsplit(target).path, Answer(writer)
        self.hits.append(target)
        self.seen.append(headers)
        if path in self.redirects:
            place = ("Location", self.redirects[path])
            await answer.head(302, place, ("Content-Length", 0))
            answer.keep = True
        elif path in self._pages:
            await self._page(path, answer)
        else:
            query = parse_qs(urlsplit(target).query, keep_blank_values=True)
            await FAULTS.get(path, _missing)(Request(path, query, headers), answer)
        if answer.closes_at_next:
            await reader.readuntil(b"\r\n\r\n")
        return answer.keep and not answer.closes_at_next

    async def _page(self, path: str, answer: Answer) -> None:
        status, body = self._pages[path]
        kind = ("Content-Type", "application/json")
        await answer.head(status, kind, ("Content-Length", len(body)))
        await answer.send(body)
        answer.keep = True


def _parsed(head: str) -> tuple[str, dict[str, str]]:
    first, *lines = head.split("\r\n")
    pairs = (line.partition(": ") for line in lines if line)
    return first.split(" ")[1], {name.lower(): value for name, _, value in pairs}


async def _missing(request: Request, answer: Answer) -> None:
    await answer.head(404, ("Content-Length", 0))
    answer.keep = True
