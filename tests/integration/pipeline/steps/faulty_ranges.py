"""More ways to go wrong, for the faulty server: parts of files that lie, and pages without an end."""

from __future__ import annotations

import asyncio
import gzip
from collections import Counter

from tests.integration.pipeline.steps.faulty_server import MIB, Answer, Request, at, pdf

SIZE = 600_000
CUT = 250_000

request_counts: Counter[str] = Counter()
"""How often each `id` was requested; each test uses an id of its own."""


def numbered(size: int = SIZE, mark: bytes = b"a") -> bytes:
    """A PDF without repetition, so that a wrong join shows."""
    lines = b"".join(b"%%%s%09d\n" % (mark, n) for n in range(size // 12 + 1))
    return (b"%PDF-1.7\n" + lines)[: size - 7] + b"\n%%EOF\n"


@at("/ranged")
async def _ranged(request: Request, answer: Answer) -> None:
    """Cuts the first `cuts` answers after `cut` bytes each; the second gets the wrong answer `then`."""
    request_counts[request.get("id")] += 1
    nth = request_counts[request.get("id")]
    etag, body = request.get("etag", '"one"'), numbered()
    start = _start(request, etag)
    if start and nth == 2 and request.get("then"):
        await _lie(request.get("then"), start, body, etag, answer)
        return
    kind = [("ETag", etag)] if etag else []
    if start:
        kind.append(("Content-Range", f"bytes {start}-{SIZE - 1}/{SIZE}"))
    await answer.head(206 if start else 200, ("Content-Length", SIZE - start), *kind)
    whole, cut = nth > int(request.get("cuts", "1")), int(request.get("cut", str(CUT)))
    await answer.send(body[start:] if whole else body[start : start + cut])
    answer.keep = whole


def _start(request: Request, etag: str) -> int:
    """The first byte requested, if the condition holds."""
    first = request.headers.get("range", "").removeprefix("bytes=").removesuffix("-")
    return int(first) if first and request.headers.get("if-range") == etag else 0


async def _lie(lie: str, start: int, body: bytes, etag: str, answer: Answer) -> None:
    first = start + 1 if lie == "later" else start
    total = SIZE + 5 if lie == "longer" else SIZE
    last = SIZE - 1
    match lie:
        case "whole":
            await answer.whole(body, "application/pdf", ("ETag", etag))
        case "changed":
            await answer.whole(numbered(mark=b"b"), "application/pdf", ("ETag", '"two"'))
        case "416":
            await answer.head(416, ("Content-Range", f"bytes */{SIZE}"), ("Content-Length", 0))
            answer.keep = True
        case "503":
            await answer.head(503, ("Retry-After", 7), ("Content-Length", 0))
            answer.keep = True
        case "later" | "longer" | "other":
            named = '"two"' if lie == "other" else etag
            part = ("Content-Range", f"bytes {first}-{last}/{total}")
            await answer.head(206, ("ETag", named), part, ("Content-Length", SIZE - first))
            await answer.send(body[first:])
        case "bare":
            await answer.head(206, ("ETag", etag), ("Content-Length", SIZE - start))
            await answer.send(body[start:])
        case "short":
            part = ("Content-Range", f"bytes {start}-{last}/{SIZE}")
            await answer.head(206, ("ETag", etag), part, ("Transfer-Encoding", "chunked"))
            await answer.chunk(body[start:-100])
            await answer.send(b"0\r\n\r\n")


@at("/part")
async def _part(request: Request, answer: Answer) -> None:
    """A part that was not requested."""
    head = ("Content-Range", f"bytes 0-99999/{SIZE}"), ("Content-Length", 100_000)
    await answer.head(206, *head)
    await answer.send(numbered()[:100_000])


@at("/conditional")
async def _conditional(request: Request, answer: Answer) -> None:
    """304 to whoever names the ETag or the date it has."""
    headers = [("ETag", 'W/"seven"'), ("Last-Modified", "Sun, 01 Mar 2026 12:00:00 GMT")]
    named = request.headers.get("if-none-match") == headers[0][1]
    dated = request.headers.get("if-modified-since") == headers[1][1]
    if named or dated:
        await answer.head(304, *headers)
        answer.keep = True
    else:
        await answer.whole(numbered(20_000), "application/pdf", *headers)


PAGE = b'<!DOCTYPE html><head><meta name="citation_pdf_url" content="/pdf"></head>'
CUT_PAGE = "/cut-page"


@at(CUT_PAGE)
async def _cut_page(request: Request, answer: Answer) -> None:
    await answer.head(200, ("Content-Type", "text/html"), ("Content-Length", 1_000_000))
    await answer.send(PAGE + b"<p>" * 1000)


@at("/endless-page")
async def _endless_page(request: Request, answer: Answer) -> None:
    await answer.head(200, ("Transfer-Encoding", "chunked"))
    while True:
        await answer.chunk(b"<html>" + b"<p>" * 20_000)


@at("/bomb-page")
async def _bomb_page(request: Request, answer: Answer) -> None:
    """A page of 100 MiB in 100 kB."""
    packed = gzip.compress(b"<html>" + bytes(100 * MIB), 1)
    await answer.whole(packed, "text/html", ("Content-Encoding", "gzip"))


@at("/slow")
async def _slow(request: Request, answer: Answer) -> None:
    """Sends `bytes` every 50 ms, for ever or `times` often."""
    times = int(request.get("times", "1000000"))
    piece = int(request.get("bytes"))
    await answer.head(200, ("Content-Length", times * piece))
    body = numbered(times * piece) if times < 1000 else numbered()
    for nth in range(times):
        await answer.send(body[nth * piece : (nth + 1) * piece])
        await asyncio.sleep(0.05)


@at("/once")
async def _once(request: Request, answer: Answer) -> None:
    """The PDF to whoever has no copy; `then` to whoever has one."""
    known = any(name in request.headers for name in ("if-none-match", "if-modified-since"))
    body = request.get("then").encode() if known else pdf()
    await answer.whole(body, "application/pdf", ("ETag", '"once"'))
