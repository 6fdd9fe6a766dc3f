"""Several hosts full of papers that answer in every way the web does, and log every request."""

from __future__ import annotations

import asyncio
import gzip
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from tests import pdf_builder

RETRY_AFTER = 3
"""Seconds a 429 or 503 here asks for."""

FOREVER = 3600
PROSE = (
    "Gates in rivers hold the water back until somebody opens them again.",
    "We measured forty gates over nine years and found that most leak a little.",
    "The leak grows with the age of the seal, and not with the height of the water.",
    "A keeper who renews the seal every third year loses almost nothing.",
)


@dataclass(frozen=True)
class LoggedRequest:
    """One request as its host saw it; times are this machine's monotonic clock, in seconds."""

    host: int
    path: str
    start: float
    end: float


@dataclass
class Exchange:
    """One request and the way to answer it; `nth` counts the requests for this path."""

    server: FaultyWebServer
    host: int
    kind: str
    number: int
    nth: int
    headers: dict[str, str]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def pdf(self) -> bytes:
        return paper(self.number)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self, status: str, *headers: tuple[str, object]) -> None:
        lines = [f"HTTP/1.1 {status}", "Connection: close", *(f"{k}: {v}" for k, v in headers)]
        await self.send("\r\n".join([*lines, "", ""]).encode())

    async def whole(self, body: bytes, kind: str, *headers: tuple[str, object]) -> None:
        await self.head("200 OK", ("Content-Type", kind), ("Content-Length", len(body)), *headers)
        await self.send(body)

    async def give(self) -> None:
        await self.whole(self.pdf, "application/pdf")

    async def empty(self, status: str, *headers: tuple[str, object]) -> None:
        await self.head(status, ("Content-Length", 0), *headers)

    async def wait_for_ever(self) -> None:
        """Until the client hangs up."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.reader.read(), FOREVER)

    def url(self, kind: str, host: int) -> str:
        return self.server.url(kind, self.number, host)


Behaviour = Callable[[Exchange], Awaitable[None]]


@dataclass(frozen=True)
class Kind:
    """A way to answer, how its documents must end ("done" or a kind of error), and their share."""

    answer: Behaviour
    ends: str
    share: int


KINDS: dict[str, Kind] = {}


def kind(ends: str, share: int) -> Callable[[Behaviour], Behaviour]:
    def register(answer: Behaviour) -> Behaviour:
        KINDS[answer.__name__.strip("_").replace("_", "-")] = Kind(answer, ends, share)
        return answer

    return register


@kind("done", 20)
async def _plain(exchange: Exchange) -> None:
    await exchange.give()


@kind("done", 6)
async def _octet_stream(exchange: Exchange) -> None:
    await exchange.whole(b"\n" * 500 + exchange.pdf, "application/octet-stream")


@kind("done", 6)
async def _packed(exchange: Exchange) -> None:
    body = gzip.compress(exchange.pdf)
    await exchange.whole(body, "application/pdf", ("Content-Encoding", "gzip"))


@kind("done", 4)
async def _without_length(exchange: Exchange) -> None:
    await exchange.head("200 OK")
    await exchange.send(exchange.pdf)


@kind("done", 6)
async def _moved(exchange: Exchange) -> None:
    await exchange.empty("302 Found", ("Location", f"/plain/{exchange.number}.pdf"))


@kind("done", 6)
async def _moved_elsewhere(exchange: Exchange) -> None:
    """To another port, which is another host."""
    await exchange.empty("301 Moved", ("Location", exchange.url("plain", exchange.host + 1)))


@kind("done", 6)
async def _landing(exchange: Exchange) -> None:
    await _page(exchange, f"/plain/{exchange.number}.pdf")


@kind("done", 4)
async def _landing_elsewhere(exchange: Exchange) -> None:
    await _page(exchange, exchange.url("plain", exchange.host + 1))


async def _page(exchange: Exchange, link: str) -> None:
    tag = f"<meta content='{link}' name='citation_pdf_url'>"
    await exchange.whole(f"<!DOCTYPE html><title>A paper</title>{tag}".encode(), "application/pdf")


@kind("done", 2)
async def _too_many(exchange: Exchange) -> None:
    if exchange.nth == 1:
        await exchange.empty("429 Too Many Requests", ("Retry-After", RETRY_AFTER))
    else:
        await exchange.give()


@kind("done", 2)
async def _busy_a_moment(exchange: Exchange) -> None:
    if exchange.nth == 1:
        await exchange.empty("503 Busy", ("Retry-After", RETRY_AFTER))
    else:
        await exchange.give()


@kind("done", 4)
async def _reset_once(exchange: Exchange) -> None:
    if exchange.nth == 1:
        exchange.writer.transport.abort()
    else:
        await exchange.give()


@kind("done", 3)
async def _stalls_once(exchange: Exchange) -> None:
    if exchange.nth == 1:
        await exchange.head("200 OK", ("Content-Length", len(exchange.pdf)))
        await exchange.send(exchange.pdf[:1500])
        await exchange.wait_for_ever()
    else:
        await exchange.give()


@kind("done", 6)
async def _cut_once(exchange: Exchange) -> None:
    """With a strong ETag: the rest may be requested."""
    body, etag = exchange.pdf, ("ETag", f'"{exchange.number}"')
    if exchange.nth == 1:
        await exchange.head("200 OK", ("Content-Length", len(body)), etag)
        await exchange.send(body[: len(body) // 2])
        return
    first = int(exchange.headers.get("range", "bytes=0-").removeprefix("bytes=").removesuffix("-"))
    part = ("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}")
    await exchange.head("206 Part", ("Content-Length", len(body) - first), etag, part)
    await exchange.send(body[first:])


@kind("server_error", 2)
async def _broken(exchange: Exchange) -> None:
    await exchange.empty("500 Broken")


@kind("timeout", 2)
async def _never_answers(exchange: Exchange) -> None:
    await exchange.wait_for_ever()


@kind("network", 2)
async def _resets(exchange: Exchange) -> None:
    await exchange.head("200 OK", ("Content-Length", 90_000))
    await exchange.send(exchange.pdf)
    exchange.writer.transport.abort()


@kind("network", 2)
async def _truncated(exchange: Exchange) -> None:
    await exchange.head("200 OK", ("Content-Length", len(exchange.pdf)))
    await exchange.send(exchange.pdf[:-100])


@kind("too_large", 3)
async def _says_huge(exchange: Exchange) -> None:
    await exchange.head("200 OK", ("Content-Length", 10**12))
    await exchange.wait_for_ever()


@kind("too_large", 2)
async def _endless(exchange: Exchange) -> None:
    await exchange.head("200 OK", ("Transfer-Encoding", "chunked"))
    await exchange.send(b"9\r\n%PDF-1.7\n\r\n")
    while not exchange.writer.is_closing():
        await exchange.send(b"10000\r\n" + b"x" * 65536 + b"\r\n")


@kind("not_found", 4)
async def _gone(exchange: Exchange) -> None:
    await exchange.empty("410 Gone" if exchange.number % 2 else "404 Not Found")


@kind("http_error", 3)
async def _forbidden(exchange: Exchange) -> None:
    await exchange.empty("403 Forbidden")


@kind("http_error", 2)
async def _loop(exchange: Exchange) -> None:
    await exchange.empty("302 Found", ("Location", exchange.url("loop", exchange.host + exchange.nth % 2)))


@kind("not_pdf", 4)
async def _html(exchange: Exchange) -> None:
    await exchange.whole(b"<!DOCTYPE html><title>Sign in</title>" + b"<p>" * 900, "application/pdf")


@kind("not_pdf", 2)
async def _json(exchange: Exchange) -> None:
    await exchange.whole(b'{"error": "no such paper"}', "application/json")


@kind("not_pdf", 2)
async def _picture(exchange: Exchange) -> None:
    await exchange.whole(b"\x89PNG\r\n\x1a\n" + bytes(3000), "application/pdf")


@kind("not_pdf", 1)
async def _nothing(exchange: Exchange) -> None:
    await exchange.whole(b"", "application/pdf")


@kind("refused_address", 1)
async def _to_a_file(exchange: Exchange) -> None:
    await exchange.empty("302 Found", ("Location", "file:///etc/passwd"))


def paper(number: int) -> bytes:
    """A paper of one page, like no other."""
    lines = (f"On gate number {number}", *PROSE)
    ballast = pdf_builder.stream(Random(number).randbytes(3000))
    return pdf_builder.document([pdf_builder.text_content(*lines)], more=[ballast])


class FaultyWebServer:
    """So many hosts, each a port of this machine, on a thread of their own."""

    def __init__(self, hosts: int) -> None:
        self.log: list[LoggedRequest] = []
        self.ports: list[int] = []
        self._hosts, self._counts = hosts, Counter[str]()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> FaultyWebServer:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def url(self, kind: str, number: int, host: int) -> str:
        return f"http://127.0.0.1:{self.ports[host % self._hosts]}/{kind}/{number}.pdf"

    def documents(self, count: int) -> dict[str, str]:
        """So many URLs, each with how it must end: each kind once, then each by its share, spread over
        the hosts."""
        shares = [name for name, kind in KINDS.items() for _ in range(kind.share)]
        step = 37  # no divisor of the number of shares, so that kinds come mixed
        names = [*KINDS, *(shares[n * step % len(shares)] for n in range(count))][:count]
        return {self.url(name, n, n): KINDS[name].ends for n, name in enumerate(names)}

    async def _serve(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        self._open: set[asyncio.Task[None]] = set()
        servers = [
            await asyncio.start_server(self._accepter(host), "127.0.0.1", 0) for host in range(self._hosts)
        ]
        self.ports = [server.sockets[0].getsockname()[1] for server in servers]
        self._ready.set()
        await self._stopped.wait()
        for server in servers:
            server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _accepter(self, host: int) -> Callable[..., None]:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._converse(host, reader, writer))
            self._open.add(task)
            task.add_done_callback(self._open.discard)

        return accept

    async def _converse(self, host: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            path, start = lines[0].split(" ")[1], time.monotonic()
            name, number = path.strip("/").removesuffix(".pdf").split("/")
            self._counts[path] += 1
            pairs = (line.partition(": ") for line in lines[1:] if line)
            headers = {key.lower(): value for key, _, value in pairs}
            exchange = Exchange(self, host, name, int(number), self._counts[path], headers, reader, writer)
            try:
                await KINDS[name].answer(exchange)
            finally:
                self.log.append(LoggedRequest(host, path, start, time.monotonic()))
        writer.close()


def most_at_once(log: Iterable[LoggedRequest]) -> dict[int, int]:
    """The largest number of requests under way at one moment, by host."""
    moves: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for request in log:
        moves[request.host] += [(request.start, 1), (request.end, -1)]
    most: dict[int, int] = {}
    for host, steps in moves.items():
        now = 0
        for _, change in sorted(steps):
            now += change
            most[host] = max(most.get(host, 0), now)
    return most


def too_early(log: Iterable[LoggedRequest], grace: float) -> list[tuple[LoggedRequest, LoggedRequest]]:
    """Pairs of an answer with Retry-After and a request that ignored it: for the same paper at any
    time before, for others of its host once `grace` seconds had passed for the breaker to take effect."""
    refusals = [a for a in log if a.path.startswith(("/too-many/", "/busy-a-moment/"))]
    firsts = {a.path: a for a in sorted(refusals, key=lambda a: a.start, reverse=True)}
    return [
        (wait, later)
        for wait in firsts.values()
        for later in log
        if later.host == wait.host
        and wait.end + (0 if later.path == wait.path else grace) < later.start
        and later.start < wait.end + RETRY_AFTER
    ]
