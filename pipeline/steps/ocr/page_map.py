"""Pages in a window: rendered ahead, read several at once, delivered in order.

A `PageReader` reads one page (by a model or a program); order, bounds, retries and aborts are those of
`queuemgr.steptools.ordered_map`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pipeline.steps.pdf.page_images import Picture
from pipeline.steps.pdf.page_images_pool import SharedPageImages
from pipeline.steps.pdf.page_outcomes import EncodeError, PageFailed, PageOutcome, PdfError
from pipeline.steps.pdf.renderer import RenderOptions
from queuemgr import AbortSignal
from queuemgr.steptools.lanes import Lane
from queuemgr.steptools.ordered_map import in_order

logger = logging.getLogger(__name__)

_rng = random.SystemRandom()


@dataclass
class PageRequest:
    """One page through all its tries. `index` is its position in the document's list, `quarters` its
    rotation counter-clockwise, `requests` counts those sent about it."""

    index: int
    page: int
    picture: Picture | None = None
    quarters: int = 0
    requests: int = 0
    temperature_step: int = 0
    max_tokens: int = 0
    last_error: PageFailed | None = None


PageCallback = Callable[[PageOutcome], object]
"""Called with each page as soon as it is read or found blank, in any order; not with a failed one.
Called on the event loop; what it raises ends the run."""


def ignore_page(_outcome: PageOutcome) -> None:
    """For callers that need no callback."""


PageReader = Callable[[PageRequest, SharedPageImages], Awaitable[str]]
"""Reads a page from its picture. Raises `PageFailed`; any other error ends the run."""


@dataclass(frozen=True)
class Pacing:
    """Pages at once, how far ahead of the oldest unfinished one, and the backoff of retries.

    The backoff is `min(max_delay, base_delay * 2**(attempt-1))` seconds, or what the server asks for,
    plus a jitter of up to `base_delay / 2`. A page is tried up to `1 + max_retries` times.
    """

    inflight: int = 32
    window: int = 64
    max_retries: int = 3
    base_delay: float = 1.0
    max_delay: float = 60.0

    def wait(self, error: Exception, attempt: int) -> float:
        """Seconds until try `attempt + 1`; the exponent is capped before it can overflow."""
        requested = getattr(error, "retry_after", None)
        steps = 2.0 ** min(attempt - 1, 32)
        delay = min(self.max_delay, self.base_delay * steps) if requested is None else max(0.0, requested)
        return float(delay) + _rng.uniform(0.0, self.base_delay / 2)


async def read_in_window(
    pdf: Path,
    pages: Sequence[int],
    read: PageReader,
    pacing: Pacing,
    render: RenderOptions,
    signal: AbortSignal,
    on_page: PageCallback = ignore_page,
) -> AsyncGenerator[PageOutcome, None]:
    """An outcome for each page, in the order of `pages`; `on_page` is called earlier, in any order.

    Raises `StepFailed` if the document cannot be opened, `Aborted`, and what `read` raises other than
    `PageFailed`. A caller that stops early must close the generator.
    """
    lane = Lane("ocr", pacing.inflight, max(pacing.window, pacing.inflight))
    async with SharedPageImages(pdf, pages, pacing.window, render, signal) as images:
        results = in_order(
            lane,
            (PageRequest(index, page) for index, page in enumerate(pages)),
            partial(one_page, images=images, read=read, on_page=on_page),
            window=pacing.window,
            retries=pacing.max_retries,
            backoff=pacing.wait,
            retryable=is_retryable,
            signal=signal,
        )
        async with aclosing(results):
            async for finished in results:
                images.delivered(finished.seq + 1)
                yield finished.result or failed(finished.item, finished.error)


async def one_page(
    request: PageRequest, images: SharedPageImages, read: PageReader, on_page: PageCallback
) -> PageOutcome:
    """One try at a page, and the callback with its outcome."""
    outcome = await outcome_of(request, images, read)
    on_page(outcome)
    return outcome


async def outcome_of(request: PageRequest, images: SharedPageImages, read: PageReader) -> PageOutcome:
    """The outcome of one try; a blank page needs none. The picture is freed with the result."""
    if request.picture is None:
        request.picture = await images.take(request.index)
    if request.picture.blank:
        return PageOutcome(request.page, 0, blank=True)
    try:
        text = await read(request, images)
    except PageFailed as error:
        request.last_error = error
        if error.retryable:
            status = f" (HTTP {error.http_status})" if error.http_status else ""
            log(
                "page %d, attempt %d: %s%s, to be retried", request.page, request.requests, error.name, status
            )
        raise
    request.picture = None
    return PageOutcome(request.page, request.requests, text)


def log(text: str, *arguments: object) -> None:
    """Log from an event loop: in a thread, since a line is searched for secrets and escaped."""
    asyncio.get_running_loop().run_in_executor(None, partial(logger.info, text, *arguments))


def is_retryable(error: Exception) -> bool:
    return isinstance(error, PageFailed) and error.retryable


def failed(request: PageRequest, error: Exception | None) -> PageOutcome:
    """The outcome of a page that failed for good. Raises an error that is not a page's."""
    if not isinstance(error, PageFailed):
        raise error or RuntimeError("a page ended with neither result nor error")
    drawn = not isinstance(error, (PdfError, EncodeError))
    return PageOutcome(request.page, request.requests if drawn else max(1, request.requests), error=error)
