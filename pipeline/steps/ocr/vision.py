"""Pages read by a vision model behind an OpenAI-compatible endpoint, many at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.steps.llm.client import Tally
from pipeline.steps.llm.endpoint import Endpoint
from pipeline.steps.ocr.page_map import Asking, Keep, Tempo, nowhere, through_window
from pipeline.steps.ocr.vision_client import CutOff, VisionClient, connected
from pipeline.steps.ocr.vision_response import PageAnswer, goes_in_circles, parsed
from pipeline.steps.pdf.page_images_pool import SharedPageImages
from pipeline.steps.pdf.page_outcomes import (
    HttpError,
    PageFailed,
    PageOutcome,
    ParseError,
    RateLimit,
)
from pipeline.steps.pdf.renderer import Drawing
from queuemgr import AbortSignal

TEMPERATURES = (0.0, 0.2, 0.5)
"""Of the first try and of those after an answer that could not be used: the same question at 0
would get the same answer. After the last an unusable answer is final."""

MAX_TOKENS = 8_000
"""olmOCR's own; the densest newspaper page at hand is 20,064 characters, some 6,000 tokens."""

ENDS_ALL = frozenset({"quota", "http_error"})
"""Kinds of refusal (402, 401, 403 and such) that would meet every other page as well."""

_rng = random.SystemRandom()


async def nothing() -> None:
    """For callers that book no requests."""


@dataclass(frozen=True)
class RemoteOptions:
    """Whom to ask and how hard.

    `before_request` is awaited before each request and may refuse it by raising, which ends the
    run. `spare` requests may go to second tries, None for no bound. A server that asks for a wait
    above `patience` seconds is not waited for: the pages left fail with what it asked for.
    `drawers` child processes draw the pages. `tally` counts what was asked and used.
    """

    endpoint: Endpoint
    tempo: Tempo = field(default_factory=Tempo)
    max_tokens: int = MAX_TOKENS
    longest_px: int = 1288
    drawers: int = 1
    spare: int | None = None
    patience: float = float("inf")
    before_request: Callable[[], Awaitable[object]] = nothing
    tally: Tally = field(default_factory=Tally)


async def by_model(
    pdf: Path,
    pages: Sequence[int],
    options: RemoteOptions,
    signal: AbortSignal,
    keep: Keep = nowhere,
) -> AsyncGenerator[PageOutcome, None]:
    """An outcome for each page, in order. Raises `StepFailed` when the document cannot be opened
    or the address cannot be used, `Aborted`, and what `before_request` raises."""
    client = connected(options.endpoint, options.tempo.inflight, options.tally)
    async with client.http:
        reader = ModelReader(client, options)
        drawing = Drawing(options.longest_px, children=options.drawers)
        outcomes = through_window(pdf, pages, reader.read, options.tempo, drawing, signal, keep)
        async with aclosing(outcomes):
            async for outcome in outcomes:
                yield outcome


class DocumentThrottle:
    """What one page's answer means for all pages of a document: a wait, or no further requests."""

    def __init__(self, patience: float, spread: float) -> None:
        self._patience, self._spread, self._until = patience, spread, 0.0
        self._refusal: PageFailed | None = None

    def record_failure(self, error: PageFailed) -> None:
        """Send nothing for as long as the server asks, or any more if it refuses all requests."""
        if error.retry_after is not None:
            now = asyncio.get_running_loop().time()
            self._until = max(self._until, now + error.retry_after)
            error.retryable = error.retryable and error.retry_after <= self._patience
        if error.kind in ENDS_ALL:
            self._refusal = error

    async def wait(self) -> None:
        """Wait until requests are allowed, and a random moment more, so that not all pages come at once.

        Raises `RateLimit` when that would take longer than patience lasts, and `HttpError`.
        """
        now = asyncio.get_running_loop().time
        while (left := self._until - now()) > 0 and self._refusal is None:
            if left > self._patience:
                said = f"The endpoint asks for a wait of {left:.0f} s."
                raise RateLimit(said, retryable=False, retry_after=left)
            await asyncio.sleep(left + _rng.uniform(0.0, self._spread))
        if (refusal := self._refusal) is not None:
            raise HttpError(
                refusal.message, kind=refusal.kind, http_status=refusal.http_status
            ) from refusal


class ModelReader:
    """Asks for one page at a time, for many pages at once; what it learns of a page is on its
    `Asking`, so that the next try changes what was wrong with the last."""

    def __init__(self, client: VisionClient, options: RemoteOptions) -> None:
        self._client, self._options = client, options
        self._throttle = DocumentThrottle(options.patience, options.tempo.base_delay / 2)
        self._spare = options.spare

    async def read(self, asking: Asking, images: SharedPageImages) -> str:
        """The page's text. A page said to stand wrong is drawn once more, turned, and asked again."""
        answer = await self._asked(asking)
        if answer.quarters and not asking.quarters and self._may_ask_again(asking):
            asking.quarters = answer.quarters
            asking.picture = await images.turned(asking.place, asking.page, answer.quarters)
            answer = await self._asked(asking)
        if not answer.text:
            raise ParseError("The page has ink, but no text was found on it.")
        return answer.text

    async def _asked(self, asking: Asking) -> PageAnswer:
        """One request, and what it came to; a failure says whether another may follow."""
        assert asking.picture is not None
        limit = asking.max_tokens or self._options.max_tokens
        try:
            await self._throttle.wait()
            await self._book(asking)
            heat = TEMPERATURES[asking.heat]
            return parsed(await self._client.ask(asking.picture.data, limit, heat))
        except CutOff as cut:
            self._learn(self._cut_off(cut, limit, asking), asking)
            raise
        except ParseError as unusable:
            unusable.retryable = unusable.retryable and warmer(asking)
            self._learn(unusable, asking)
            raise
        except PageFailed as error:
            self._learn(error, asking)
            raise

    async def _book(self, asking: Asking) -> None:
        """Count the request, and let it be refused. Second tries draw on what is spare."""
        if asking.requests and self._spare is not None:
            if self._spare <= 0:
                raise asking.last_error or ParseError("No request is left for this page.")
            self._spare -= 1
        await self._options.before_request()
        asking.requests += 1

    def _may_ask_again(self, asking: Asking) -> bool:
        left = asking.requests <= self._options.tempo.max_retries
        return left and (self._spare is None or self._spare > 0)

    def _learn(self, error: PageFailed, asking: Asking) -> None:
        self._throttle.record_failure(error)
        error.retryable = error.retryable and self._may_ask_again(asking)

    def _cut_off(self, cut: CutOff, limit: int, asking: Asking) -> CutOff:
        """Say so. One without end is asked for warmer next time, a long one with more room, once."""
        if goes_in_circles(cut.so_far):
            cut.message = f"The answer was truncated at {limit} tokens, repeating itself."
            cut.retryable = warmer(asking)
        else:
            cut.message = f"The answer was truncated at its limit of {limit} tokens."
            cut.retryable = limit == self._options.max_tokens
            asking.max_tokens = 2 * limit
        return cut


def warmer(asking: Asking) -> bool:
    """Ask at the next temperature next time; False when the last one was used."""
    if asking.heat + 1 >= len(TEMPERATURES):
        return False
    asking.heat += 1
    return True
