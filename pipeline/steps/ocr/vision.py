"""Pages read by a vision model at an OpenAI-compatible endpoint, many at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipeline.steps.extract.clean_text import clean
from pipeline.steps.llm.endpoint import Endpoint
from pipeline.steps.llm.usage import Usage
from pipeline.steps.ocr.page_map import Pacing, PageCallback, PageRequest, ignore_page, log, read_in_window
from pipeline.steps.ocr.vision_client import CutOff, VisionClient, connected
from pipeline.steps.ocr.vision_response import PageAnswer, is_repetitive, parsed
from pipeline.steps.pdf.drawing_time import DrawingLimits
from pipeline.steps.pdf.page_images_pool import SharedPageImages
from pipeline.steps.pdf.page_outcomes import HttpError, PageFailed, PageOutcome, ParseError, RateLimit
from pipeline.steps.pdf.renderer import RenderOptions
from queuemgr import AbortSignal

TEMPERATURES = (0.0, 0.2, 0.5)
"""Of the first try and of retries after an unusable answer: at 0 the same request would get the same
answer. After the last one an unusable answer is final."""

MAX_TOKENS = 8_000
"""olmOCR's own limit; our densest newspaper page has 20,064 characters, some 6,000 tokens."""

PERMANENT_REFUSALS = frozenset({"quota", "http_error"})
"""Refusals (401, 402, 403 and such) that every other page would get as well."""

ANNOUNCED_SECONDS = 1.0
"""A wait that ends later than the one before by as much is logged: 32 pages may be told the same one."""

_rng = random.SystemRandom()


async def nothing() -> None:
    """For callers that charge no requests."""


@dataclass(frozen=True)
class RemoteOptions:
    """The endpoint, and how fast to use it.

    `before_request` is awaited before each request and may refuse it by raising, which ends the
    run. `spare`: requests that may be spent on retries, None for no bound. If a server asks for a
    wait of more than `max_wait` seconds, the remaining pages fail with that wait. `renderers`: child
    processes that render the pages, within `drawing`. `formats`: those in which the endpoint takes a page
    that is one picture as it is in the file, of `jpeg` and `png`. `usage` counts requests and tokens.
    """

    endpoint: Endpoint
    pacing: Pacing = field(default_factory=Pacing)
    max_tokens: int = MAX_TOKENS
    longest_px: int = 1288
    renderers: int = 1
    spare: int | None = None
    max_wait: float = float("inf")
    before_request: Callable[[], Awaitable[object]] = nothing
    usage: Usage = field(default_factory=Usage)
    drawing: DrawingLimits = field(default_factory=DrawingLimits)
    formats: tuple[str, ...] = ("jpeg",)


async def read_by_model(
    pdf: Path,
    pages: Sequence[int],
    options: RemoteOptions,
    signal: AbortSignal,
    on_page: PageCallback = ignore_page,
) -> AsyncGenerator[PageOutcome, None]:
    """An outcome for each page, in order. Raises `StepFailed` if the document cannot be opened or the
    endpoint's URL is unusable, `Aborted`, and what `before_request` raises."""
    client = connected(options.endpoint, options.usage)
    async with client.http:
        reader = ModelReader(client, options)
        render = RenderOptions(
            options.longest_px, limits=options.drawing, children=options.renderers, passes=options.formats
        )
        outcomes = read_in_window(pdf, pages, reader.read, options.pacing, render, signal, on_page)
        async with aclosing(outcomes):
            async for outcome in outcomes:
                yield outcome


class DocumentThrottle:
    """Shared by the pages of a document: a failure of one page delays or stops the others."""

    def __init__(self, max_wait: float, spread: float) -> None:
        self._max_wait, self._spread, self._until = max_wait, spread, 0.0
        self._refusal: PageFailed | None = None

    def record_failure(self, error: PageFailed) -> None:
        """Send nothing for as long as the server asks, or at all if it refuses every request."""
        if error.retry_after is not None:
            until = asyncio.get_running_loop().time() + error.retry_after
            if until > self._until + ANNOUNCED_SECONDS:
                log("the endpoint asks for a wait of %.0f s: no page is sent before", error.retry_after)
            self._until = max(self._until, until)
            error.retryable = error.retryable and error.retry_after <= self._max_wait
        if error.kind in PERMANENT_REFUSALS:
            self._refusal = error

    async def wait(self) -> None:
        """Wait until requests are allowed, plus a random delay, so that pages do not come all at once.

        Raises `RateLimit` if that would take longer than `max_wait`, and `HttpError`.
        """
        now = asyncio.get_running_loop().time
        while (left := self._until - now()) > 0 and self._refusal is None:
            if left > self._max_wait:
                message = f"The endpoint asks for a wait of {left:.0f} s."
                raise RateLimit(message, retryable=False, retry_after=left)
            await asyncio.sleep(left + _rng.uniform(0.0, self._spread))
        if (refusal := self._refusal) is not None:
            raise HttpError(refusal.message, kind=refusal.kind, http_status=refusal.http_status) from refusal


class ModelReader:
    """Reads pages, many at once. The state of a page is in its `PageRequest`, so that a retry changes
    what went wrong before."""

    def __init__(self, client: VisionClient, options: RemoteOptions) -> None:
        self._client, self._options = client, options
        self._throttle = DocumentThrottle(options.max_wait, options.pacing.base_delay / 2)
        self._spare = options.spare

    async def read(self, request: PageRequest, images: SharedPageImages) -> str:
        """The page's text. A page reported as rotated is rendered upright and requested again."""
        answer = await self._request(request)
        if answer.quarters and not request.quarters and self._may_retry(request):
            request.quarters = answer.quarters
            request.picture = await images.rotated(request.index, request.page, answer.quarters)
            answer = await self._request(request)
        if not answer.text:
            raise ParseError("The page has ink, but no text was found on it.")
        return answer.text

    async def _request(self, request: PageRequest) -> PageAnswer:
        """One request; a failure states whether a retry may follow."""
        assert request.picture is not None
        limit = request.max_tokens or self._options.max_tokens
        try:
            await self._throttle.wait()
            await self._charge(request)
            heat = TEMPERATURES[request.temperature_step]
            answer = await self._client.ask(request.picture.data, limit, heat)
            return await asyncio.to_thread(cleaned, answer)
        except CutOff as cut:
            repeats = await asyncio.to_thread(is_repetitive, cut.so_far)
            self._record(self._cut_off(cut, limit, request, repeats=repeats), request)
            raise
        except ParseError as unusable:
            unusable.retryable = unusable.retryable and raise_temperature(request)
            self._record(unusable, request)
            raise
        except PageFailed as error:
            self._record(error, request)
            raise

    async def _charge(self, request: PageRequest) -> None:
        """Charge the request, which may refuse it. Retries use the spare requests."""
        if request.requests and self._spare is not None:
            if self._spare <= 0:
                raise request.last_error or ParseError("No request is left for this page.")
            self._spare -= 1
        await self._options.before_request()
        request.requests += 1

    def _may_retry(self, request: PageRequest) -> bool:
        left = request.requests <= self._options.pacing.max_retries
        return left and (self._spare is None or self._spare > 0)

    def _record(self, error: PageFailed, request: PageRequest) -> None:
        self._throttle.record_failure(error)
        error.retryable = error.retryable and self._may_retry(request)

    def _cut_off(self, cut: CutOff, limit: int, request: PageRequest, *, repeats: bool) -> CutOff:
        """The failure of a truncated answer. A repetitive one is retried at a higher temperature, a
        long one once with twice the tokens."""
        if repeats:
            cut.message = f"The answer was truncated at {limit} tokens, repeating itself."
            cut.retryable = raise_temperature(request)
        else:
            cut.message = f"The answer was truncated at its limit of {limit} tokens."
            cut.retryable = limit == self._options.max_tokens
            request.max_tokens = 2 * limit
        return cut


def cleaned(answer: str) -> PageAnswer:
    """The page in an answer. Raises `ParseError` if the answer is unusable."""
    page = parsed(answer)
    return replace(page, text=clean(page.text).text)


def raise_temperature(request: PageRequest) -> bool:
    """Use the next temperature for the retry; False if the last one was used."""
    if request.temperature_step + 1 >= len(TEMPERATURES):
        return False
    request.temperature_step += 1
    return True
