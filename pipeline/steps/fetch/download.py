"""One download on the event loop: asked for, resumed where it was cut, a page's link followed once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

import httpx

from pipeline.steps.fetch import resume
from pipeline.steps.fetch.landing_page import MAX_PAGE, pdf_link
from pipeline.steps.fetch.partial_file import PartFile, is_page, no_pdf
from pipeline.steps.http.client import HttpClient
from pipeline.steps.http.decompress import Unpacker
from pipeline.steps.http.failure import named_failures
from pipeline.steps.http.minimum_speed import MinimumSpeed, at_least
from pipeline.steps.http.redirects import Trip
from pipeline.steps.http.safe_addresses import Reach, shown
from queuemgr import StepFailed

MAX_RESUMES = 3
"""How often one download goes on after a cut; a later attempt of the step may go on from there."""

WORTH_KEEPING = frozenset({"network", "timeout", "server_error", "rate_limited"})
"""Kinds of failure after which the same bytes may still be asked for."""

_CUTS = (httpx.RemoteProtocolError, httpx.ReadError)
# Packing a PDF gains nothing, and unpacked transfer lets the declared length be checked.
_HEADERS = {"Accept": "application/pdf, */*;q=0.5", "Accept-Encoding": "identity"}
_PAGE_HEADERS = {**_HEADERS, "Accept": "text/html, application/pdf;q=0.9, */*;q=0.5"}


@dataclass(frozen=True)
class FetchOptions:
    """Limits of one download: bytes after unpacking, seconds in all, how far it may reach, how slow
    it may be.

    `trusted_hosts` (each `name:port`) may be private although `allow_private` is off.
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
class EarlierCopy:
    """How the server named the copy we have; with an ETag or a date it may answer "not changed"."""

    etag: str = ""
    last_modified: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """The conditions of a request (RFC 9110, 13.1): the ETag, else the date."""
        if self.etag:
            return {"If-None-Match": self.etag}
        return {"If-Modified-Since": self.last_modified} if self.last_modified else {}


@dataclass(frozen=True)
class Asked:
    """What is asked for; `landing`: a page that names the PDF is expected rather than the PDF."""

    url: str
    landing: bool = False
    earlier: EarlierCopy = EarlierCopy()


@dataclass(frozen=True)
class Answered:
    """Facts of the answer whose body is the file; `changed` is off when our copy still stands."""

    final_url: str
    content_type: str
    etag: str
    last_modified: str
    changed: bool = True


class _StartOver(Exception):
    """What was offered does not follow what we have: ask again for the whole file."""


class _PageInstead(Exception):
    """A page came in place of the PDF."""

    def __init__(self, page: bytes, url: str) -> None:
        super().__init__(url)
        self.page, self.url = page, url


class Download:
    """Fills a part file from a URL. One use, on the client's loop; `keep` afterwards, from anywhere."""

    def __init__(
        self, asked: Asked, part: PartFile, options: FetchOptions, http: HttpClient, trip: Trip
    ) -> None:
        self._asked, self._options, self._http, self.trip = asked, options, http, trip
        self._part, self._into = part, part.path.parent
        self._url, self._etag = asked.url, ""

    async def run(self) -> Answered:
        """Raises StepFailed, and LeadsElsewhere when the trip must stay with one host."""
        with named_failures(self._asked.url):
            async with asyncio.timeout(self._options.deadline):
                while True:
                    try:
                        return await self._whole()
                    except _PageInstead as found:
                        await self._turn_to_link(found)

    def keep(self, failure: StepFailed) -> None:
        """After a failure that may pass: leave what came so far for a later attempt."""
        if failure.kind in WORTH_KEEPING:
            resume.keep(self._part, self._into, self._url, self._etag)

    async def _turn_to_link(self, found: _PageInstead) -> None:
        """Have the page's PDF asked for next; once, since a link may lead to a page again."""
        link = pdf_link(found.page, found.url)
        if self.trip.from_page or not link:
            raise no_pdf(shown(found.url), found.page)
        self.trip.from_page = True
        await asyncio.to_thread(self._part.restart)
        self._url, self._etag = link, ""
        self.trip.stay(link)

    async def _whole(self) -> Answered:
        """The whole file at the URL, in as many answers as it takes."""
        self._etag = await asyncio.to_thread(resume.take_up, self._part, self._into, self._url)
        for tries in range(1 + MAX_RESUMES):
            before = self._part.size
            try:
                return await self._answer()
            except _StartOver:
                await self._start_over()
            except _CUTS:
                # Without progress the same place would only be cut again.
                if tries == MAX_RESUMES or not self._etag or self._part.size <= before:
                    raise
        raise StepFailed("bad_answer", f"{shown(self._url)} gives parts that do not fit together")

    async def _start_over(self) -> None:
        self._etag = ""
        await asyncio.to_thread(self._part.restart)

    async def _answer(self) -> Answered:
        ranged = resume.range_headers(self._part.size, self._etag)
        conditions = {} if ranged else self._asked.earlier.headers
        also = (304,) if conditions else (416,) if ranged else ()
        plain = _PAGE_HEADERS if self._asked.landing and not self.trip.from_page else _HEADERS
        async with self._http.opened(
            self._url, self._options.reach, {**plain, **ranged, **conditions}, self.trip, also
        ) as response:
            self._part.source = shown(response.url)
            if response.status_code == 304:
                return _facts(response, changed=False)
            whole = await self._line_up(response, resuming=bool(ranged))
            _refuse_declared(response, self._options.max_bytes)
            await self._pour(response)
            self._refuse_short(whole)
            return _facts(response)

    async def _line_up(self, response: httpx.Response, *, resuming: bool) -> int | None:
        """See that what comes follows what we have: the rest of it, or all of it once more.

        Gives the size of the whole file where the answer is a part that states it.
        """
        if response.status_code == 206 and not resuming:
            raise StepFailed("bad_answer", f"{shown(response.url)} sent a part nobody asked for")
        if response.status_code == 416:
            raise _StartOver
        if response.status_code == 206:
            whole = resume.whole_size(response, self._part.size, self._etag)
            if whole is None:
                raise _StartOver
            return whole
        if self._part.size:
            await asyncio.to_thread(self._part.restart)
        self._etag = resume.strong_etag(response)
        return None

    def _refuse_short(self, whole: int | None) -> None:
        if whole is not None and self._part.size != whole:
            raise StepFailed(
                "network", f"{self._part.source} was cut off at {self._part.size} bytes of {whole}"
            )

    async def _pour(self, response: httpx.Response) -> None:
        async with (
            at_least(self._options.speed, shown(response.url)) as came,
            aclosing(_unpacked(response, came)) as pieces,
        ):
            try:
                async for piece in pieces:
                    await asyncio.to_thread(self._part.write, piece)
                self._part.judge()
            except StepFailed as failure:
                if failure.kind != "not_pdf" or not is_page(self._part.begun):
                    raise
                self._etag = ""  # a page is nothing to go on with
                page = await _rest(self._part.begun, pieces)
                raise _PageInstead(page, str(response.url)) from failure


async def _unpacked(response: httpx.Response, came: Callable[[int], None]) -> AsyncGenerator[bytes]:
    unpacker = Unpacker(response.headers.get("content-encoding", ""))
    async for raw in response.aiter_raw():
        came(len(raw))
        for piece in unpacker.feed(raw):
            yield piece
    unpacker.finish()


async def _rest(begun: bytes, pieces: AsyncGenerator[bytes]) -> bytes:
    """A page as far as it is read; what there is of one that breaks off."""
    page = bytearray(begun)
    with contextlib.suppress(httpx.TransportError, StepFailed):
        async for piece in pieces:
            page += piece
            if len(page) >= MAX_PAGE:
                break
    return bytes(page)


def _facts(response: httpx.Response, *, changed: bool = True) -> Answered:
    headers = response.headers
    return Answered(
        str(response.url),
        headers.get("content-type", ""),
        headers.get("etag", ""),
        headers.get("last-modified", ""),
        changed,
    )


def _refuse_declared(response: httpx.Response, max_bytes: int) -> None:
    """Stop before the first byte when the server itself says it is too much."""
    declared = response.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise StepFailed(
            "too_large", f"{shown(response.url)} is {declared} bytes; the limit is {max_bytes}"
        )
