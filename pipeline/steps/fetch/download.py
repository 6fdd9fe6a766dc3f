"""One download on the event loop: resumed after a cut, and a page's PDF link followed once."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import httpx

from pipeline.steps.fetch import resume
from pipeline.steps.fetch.landing_page import MAX_PAGE
from pipeline.steps.fetch.partial_file import PartialFile, is_page, not_a_pdf
from pipeline.steps.http.client import HttpClient
from pipeline.steps.http.decompress import Decompressor
from pipeline.steps.http.failure import step_failures
from pipeline.steps.http.minimum_speed import MinimumSpeed, at_least
from pipeline.steps.http.redirects import RedirectChain
from pipeline.steps.http.safe_addresses import Reach
from pipeline.steps.http.shown import shown
from pipeline.steps.pdf.sandbox import ResourceLimits
from pipeline.steps.pdf.text_sandbox import read_in_child
from queuemgr import AbortSignal, StepFailed

MAX_RESUMES = 3
"""How often one download is resumed after a cut; a later attempt of the step may resume again."""

RESUMABLE = frozenset({"network", "timeout", "server_error", "rate_limited"})
"""Kinds of failure after which the rest of the file may still be requested."""

PAGE_LIMITS = ResourceLimits(10.0, 10.0, 512 << 20, 1 << 20)
"""Of the child process that looks for a link in a page."""

LONGEST_SIZE = 20
"""Digits of a size: no file has more."""

_CUT_OFF = (httpx.RemoteProtocolError, httpx.ReadError)
# Compressing a PDF gains nothing, and without it the declared length can be checked.
_HEADERS = {"Accept": "application/pdf, */*;q=0.5", "Accept-Encoding": "identity"}
_PAGE_HEADERS = {**_HEADERS, "Accept": "text/html, application/pdf;q=0.9, */*;q=0.5"}


@dataclass(frozen=True)
class FetchOptions:
    """Limits of one download: `max_bytes` after decompression, `deadline` in seconds, minimum speed.

    `trusted_hosts` (each `name:port`) may have private addresses although `allow_private` is off.
    """

    max_bytes: int = 200 * 1024 * 1024
    deadline: float = 300.0
    allow_private: bool = False
    trusted_hosts: frozenset[str] = frozenset()
    speed: MinimumSpeed = field(default_factory=MinimumSpeed)

    @property
    def reach(self) -> Reach:
        return Reach(self.allow_private, self.trusted_hosts)


@dataclass(frozen=True)
class StoredCopy:
    """Validators of the copy we have: with an ETag or a date the server may answer "not modified"."""

    etag: str = ""
    last_modified: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """Conditional request headers (RFC 9110, 13.1): by ETag, else by date."""
        if self.etag:
            return {"If-None-Match": self.etag}
        return {"If-Modified-Since": self.last_modified} if self.last_modified else {}


@dataclass(frozen=True)
class PdfRequest:
    """What to download; `landing`: the URL is probably a page that links to the PDF."""

    url: str
    landing: bool = False
    stored: StoredCopy = StoredCopy()


@dataclass(frozen=True)
class DownloadResult:
    """Headers of the response whose body is the file; `changed`: false if our copy is still current."""

    final_url: str
    content_type: str
    etag: str
    last_modified: str
    changed: bool = True


class _Restart(Exception):
    """The response does not continue the bytes we have: request the whole file again."""


class _PageFound(Exception):
    """The response is an HTML page instead of a PDF."""

    def __init__(self, page: bytes, url: str) -> None:
        super().__init__(url)
        self.page, self.url = page, url


class Download:
    """Fills a partial file from a URL. Use once, on the client's loop; then `keep`, in any thread."""

    def __init__(
        self,
        wanted: PdfRequest,
        partial: PartialFile,
        options: FetchOptions,
        http: HttpClient,
        chain: RedirectChain,
        signal: AbortSignal,
    ) -> None:
        self._signal = signal
        self._wanted, self._options, self._http, self.chain = wanted, options, http, chain
        self._partial, self._into = partial, partial.path.parent
        self._url, self._etag = wanted.url, ""

    async def run(self) -> DownloadResult:
        """Raises StepFailed, and HostChanged if the chain is bound to one host and leaves it."""
        with step_failures(self._wanted.url):
            async with asyncio.timeout(self._options.deadline):
                while True:
                    try:
                        return await self._download()
                    except _PageFound as found:
                        await self._follow_link(found)

    def keep(self, failure: StepFailed) -> None:
        """Keep the bytes received for a later attempt, if the failure is a temporary one."""
        if failure.kind in RESUMABLE:
            resume.keep(self._partial, self._into, self._url, self._etag)

    async def _follow_link(self, found: _PageFound) -> None:
        """Download the PDF the page links to; once, since that may be a page again."""
        read = await asyncio.to_thread(_read_page, found.page, found.url, self._signal)
        link = str(read["pdf"])
        if self.chain.from_page or not link:
            raise await asyncio.to_thread(not_a_pdf, shown(found.url), found.page)
        self.chain.from_page, self.chain.stated = True, read["stated"]
        await asyncio.to_thread(self._partial.restart)
        self._url, self._etag = link, ""
        self.chain.require_host(link)

    async def _download(self) -> DownloadResult:
        """The whole file at the URL, in as many requests as it takes."""
        self._etag = await asyncio.to_thread(resume.load_partial, self._partial, self._into, self._url)
        for tries in range(1 + MAX_RESUMES):
            before = self._partial.size
            try:
                return await self._request()
            except _Restart:
                await self._restart()
            except _CUT_OFF:
                # Without progress it would only be cut off at the same byte again.
                if tries == MAX_RESUMES or not self._etag or self._partial.size <= before:
                    raise
        raise StepFailed("bad_answer", f"{shown(self._url)} sends ranges that do not fit together")

    async def _restart(self) -> None:
        self._etag = ""
        await asyncio.to_thread(self._partial.restart)

    async def _request(self) -> DownloadResult:
        ranged = resume.range_headers(self._partial.size, self._etag)
        conditions = {} if ranged else self._wanted.stored.headers
        also = (304,) if conditions else (416,) if ranged else ()
        plain = _PAGE_HEADERS if self._wanted.landing and not self.chain.from_page else _HEADERS
        async with self._http.opened(
            self._url, self._options.reach, {**plain, **ranged, **conditions}, self.chain, also
        ) as response:
            self._partial.source = shown(str(response.url))
            if response.status_code == 304:
                return _result(response, changed=False)
            whole = await self._align(response, resuming=bool(ranged))
            _check_declared_size(response, self._options.max_bytes)
            await self._write_body(response)
            self._require_complete(whole)
            return _result(response)

    async def _align(self, response: httpx.Response, *, resuming: bool) -> int | None:
        """Make the partial file ready for this body: the rest of it, or the whole file again.

        Returns the size of the whole file if the response is a range.
        """
        if response.status_code == 206 and not resuming:
            raise StepFailed("bad_answer", f"{shown(str(response.url))} sent a range that was not requested")
        if response.status_code == 416:
            raise _Restart
        if response.status_code == 206:
            whole = resume.whole_size(response, self._partial.size, self._etag)
            if whole is None:
                raise _Restart
            return whole
        if self._partial.size:
            await asyncio.to_thread(self._partial.restart)
        self._etag = resume.strong_etag(response)
        return None

    def _require_complete(self, whole: int | None) -> None:
        if whole is not None and self._partial.size != whole:
            raise StepFailed(
                "network", f"{self._partial.source} was cut off at {self._partial.size} bytes of {whole}"
            )

    async def _write_body(self, response: httpx.Response) -> None:
        async with (
            at_least(self._options.speed, shown(str(response.url))) as count,
            aclosing(_decompressed(response, count)) as pieces,
        ):
            try:
                async for piece in pieces:
                    await asyncio.to_thread(self._partial.write, piece)
                await asyncio.to_thread(self._partial.check_head)
            except StepFailed as failure:
                if failure.kind != "not_pdf" or not is_page(self._partial.head):
                    raise
                self._etag = ""  # a page is not worth resuming
                page = await _rest(self._partial.head, pieces)
                raise _PageFound(page, str(response.url)) from failure


def _read_page(page: bytes, url: str, signal: AbortSignal) -> dict[str, Any]:
    """The PDF a page names and what it states, as a child process reads it: nothing if it cannot be read."""
    try:
        encoded = base64.b64encode(page).decode()
        return dict(read_in_child("landing_page", PAGE_LIMITS, signal, page=encoded, url=url))
    except StepFailed:
        return {"pdf": "", "stated": {}}


async def _decompressed(response: httpx.Response, count: Callable[[int], None]) -> AsyncGenerator[bytes]:
    decompressor = Decompressor(response.headers.get("content-encoding", ""))
    async for raw in response.aiter_raw():
        count(len(raw))
        async for piece in decompressor.decoded(raw):
            yield piece
    decompressor.finish()


async def _rest(head: bytes, pieces: AsyncGenerator[bytes]) -> bytes:
    """A page up to MAX_PAGE bytes, or up to where it was cut off."""
    page = bytearray(head)
    with contextlib.suppress(httpx.TransportError, StepFailed):
        async for piece in pieces:
            page += piece
            if len(page) >= MAX_PAGE:
                break
    return bytes(page)


def _result(response: httpx.Response, *, changed: bool = True) -> DownloadResult:
    headers = response.headers
    return DownloadResult(
        str(response.url),
        headers.get("content-type", ""),
        headers.get("etag", ""),
        headers.get("last-modified", ""),
        changed,
    )


def _check_declared_size(response: httpx.Response, max_bytes: int) -> None:
    """Refuse a body that the server declares as too large, before its first byte."""
    declared = response.headers.get("content-length", "")
    is_number = declared.isascii() and declared.isdecimal()
    if is_number and (len(declared) > LONGEST_SIZE or int(declared) > max_bytes):
        declared = declared[:LONGEST_SIZE]
        raise StepFailed(
            "too_large", f"{shown(str(response.url))} is {declared} bytes; the limit is {max_bytes}"
        )
