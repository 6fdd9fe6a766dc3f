"""One request about one page to an OpenAI-compatible vision endpoint, and its response."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from dataclasses import dataclass
from typing import NamedTuple

import httpx

from pipeline.steps.http.bounded_body import read_whole
from pipeline.steps.http.connections import Connections
from pipeline.steps.llm.client import MAX_ANSWER_BYTES, address_of, headers_for
from pipeline.steps.llm.endpoint import Endpoint
from pipeline.steps.llm.response import AnswerTruncated, first_choice, json_of, read_by, text_of
from pipeline.steps.llm.usage import ReportedUsage, Usage, most_plausible
from pipeline.steps.ocr.vision_response import PROMPT
from pipeline.steps.pdf.page_outcomes import NetworkError, PageFailed, ParseError, Timeout, page_failed
from queuemgr import StepFailed

CONNECT_SECONDS = 15.0

PNG = b"\x89PNG"

PLACE = "(picture)"
"""Stands for the picture in a body, in which nothing after it is named so."""


class CutOff(ParseError):
    """The answer ended at its length limit; `so_far` is its beginning."""

    so_far = ""


@dataclass(frozen=True)
class VisionClient:
    """An endpoint with its connections, on one event loop; `usage` counts requests and tokens,
    failures included."""

    endpoint: Endpoint
    http: Connections
    url: httpx.URL
    usage: Usage

    async def ask(self, picture: bytes, max_tokens: int, temperature: float) -> str:
        """The model's answer about a picture, a JPEG or PNG. Raises `PageFailed`, including `CutOff`."""
        self.usage.requests += 1
        # In threads, as both may be long: the event loop only reads and writes.
        body = await asyncio.to_thread(self._body, picture, max_tokens, temperature)
        sent = time.monotonic()
        try:
            response = await self._send(body)
        except PageFailed as failure:
            self.usage.unanswered(timed_out=failure.kind == "timeout")
            raise
        await self.usage.after_headers(response.headers, sent)
        read = await asyncio.to_thread(text_in, response, self.endpoint)
        most = most_plausible([PROMPT], max_tokens, pictures=1)
        await self.usage.add(read.used, most, refused=response.status_code != 200, images=1)
        if isinstance(read.text, PageFailed):
            raise read.text
        return read.text

    def _body(self, picture: bytes, max_tokens: int, temperature: float) -> bytes:
        """Built only for sending, since base64 is a third larger than the picture."""
        kind = "png" if picture.startswith(PNG) else "jpeg"
        content = [
            {"type": "text", "text": PROMPT},
            {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{PLACE}"}},
        ]
        body = {
            "model": self.endpoint.model,
            "messages": [{"role": "user", "content": content}],
            "max_tokens": max_tokens,
            "temperature": temperature,
        }
        # The picture needs no escapes: to look for some would take longer than everything else.
        before, after = json.dumps(body).rsplit(PLACE, 1)
        return b"".join((before.encode(), base64.b64encode(picture), after.encode()))

    async def _send(self, body: bytes) -> httpx.Response:
        """The whole answer within the time allowed."""
        try:
            async with asyncio.timeout(self.endpoint.timeout):
                return await self._posted(body)
        except (TimeoutError, httpx.TimeoutException):
            seconds = f"{self.endpoint.timeout:g} s"
            raise Timeout(f"The model at {self.url.host} gave no answer within {seconds}.") from None
        except httpx.TransportError as error:
            name = type(error).__name__
            raise NetworkError(f"The connection to {self.url.host} failed ({name}).") from None

    async def _posted(self, body: bytes) -> httpx.Response:
        headers = {**headers_for(self.endpoint), "Content-Type": "application/json"}
        async with (
            self.http.one() as client,
            client.stream("POST", self.url, headers=headers, content=body) as response,
        ):
            try:
                return await read_whole(response, MAX_ANSWER_BYTES, f"The model at {self.url.host}")
            except StepFailed as failure:
                raise page_failed(failure) from None


def connected(endpoint: Endpoint, usage: Usage) -> VisionClient:
    """A client whose `http` the caller must close. Raises `StepFailed` for an unusable URL."""
    url = address_of(endpoint)
    if url.scheme not in ("http", "https") or not url.host:
        raise StepFailed("bad_request", "The OCR endpoint's address must start with http:// or https://.")
    http = Connections(httpx.Timeout(endpoint.timeout, connect=CONNECT_SECONDS))
    return VisionClient(endpoint, http, url, usage)


class ReadPage(NamedTuple):
    """A response as it was read: the tokens it reports, and the page's text or why there is none."""

    used: ReportedUsage
    text: str | PageFailed


def text_in(response: httpx.Response, endpoint: Endpoint) -> ReadPage:
    try:
        used, answer = read_by(response, endpoint)
    except StepFailed as failure:
        return ReadPage(ReportedUsage(0, 0), page_failed(failure))
    if isinstance(answer, AnswerTruncated):
        cut = CutOff("The answer was truncated.", kind="bad_answer")
        cut.so_far = so_far(response)
        return ReadPage(used, cut)
    return ReadPage(used, page_failed(answer) if isinstance(answer, StepFailed) else answer.text)


def so_far(response: httpx.Response) -> str:
    message = first_choice(json_of(response)).get("message")
    return text_of(message.get("content")) if isinstance(message, dict) else ""
