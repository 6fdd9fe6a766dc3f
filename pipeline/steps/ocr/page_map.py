"""Pages through a window: drawn ahead, read several at once, handed over in order.

What reads a page (a model behind an endpoint, a program) is a `PageReader`; everything else about
order, bounds, retries and an abort is `queuemgr.steptools.ordered_map`'s.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from pipeline.steps.pdf.page_images import Picture
from pipeline.steps.pdf.page_images_pool import SharedPageImages
from pipeline.steps.pdf.page_outcomes import PageFailed, PageOutcome
from pipeline.steps.pdf.renderer import Drawing
from queuemgr import AbortSignal
from queuemgr.steptools.lanes import Lane
from queuemgr.steptools.ordered_map import in_order

_rng = random.SystemRandom()


@dataclass
class Asking:
    """One page under way, through all its tries. `requests` counts what was asked about it."""

    place: int
    page: int
    picture: Picture | None = None
    quarters: int = 0
    requests: int = 0
    heat: int = 0
    max_tokens: int = 0
    last_error: PageFailed | None = None


Keep = Callable[[PageOutcome], object]
"""Told of each page as soon as it is read or found blank, in whatever order that is; not of one
that failed. Called on the event loop; what it raises ends the run."""


def nowhere(_outcome: PageOutcome) -> None:
    """For callers that keep nothing."""


PageReader = Callable[[Asking, SharedPageImages], Awaitable[str]]
"""Reads a page whose picture is there. Raises `PageFailed`; any other error ends the run."""


@dataclass(frozen=True)
class Tempo:
    """How many pages at once, how far ahead of the oldest unfinished one, and how failures wait.

    A wait is `min(max_delay, base_delay * 2**(attempt-1))` seconds and up to half as much again of
    `base_delay`; what a server asks for takes its place. A page is tried `1 + max_retries` times.
    """

    inflight: int = 32
    window: int = 64
    max_retries: int = 3
    base_delay: float = 1.0
    max_delay: float = 60.0

    def wait(self, error: Exception, attempt: int) -> float:
        """Seconds until try `attempt + 1`; the power is capped before it can overflow."""
        asked = getattr(error, "retry_after", None)
        steps = 2.0 ** min(attempt - 1, 32)
        delay = min(self.max_delay, self.base_delay * steps) if asked is None else max(0.0, asked)
        return float(delay) + _rng.uniform(0.0, self.base_delay / 2)


async def through_window(
    pdf: Path,
    pages: Sequence[int],
    read: PageReader,
    tempo: Tempo,
    drawing: Drawing,
    signal: AbortSignal,
    keep: Keep = nowhere,
) -> AsyncGenerator[PageOutcome, None]:
    """An outcome for each page, in the order of `pages`; `keep` is told earlier, out of order.

    Raises `StepFailed` when the document cannot be opened, `Aborted`, and whatever `read` raises
    that is no `PageFailed`. Leaving early must close the generator.
    """
    lane = Lane("ocr", tempo.inflight, max(tempo.window, tempo.inflight))
    async with SharedPageImages(pdf, pages, tempo.window, drawing, signal) as images:

        async def worker(asking: Asking) -> PageOutcome:
            outcome = await one_page(asking, images, read)
            keep(outcome)
            return outcome

        results = in_order(
            lane,
            (Asking(place, page) for place, page in enumerate(pages)),
            worker,
            window=tempo.window,
            retries=tempo.max_retries,
            backoff=tempo.wait,
            retryable=is_retryable,
            signal=signal,
        )
        async with aclosing(results):
            async for finished in results:
                images.handed_over(finished.seq + 1)
                yield finished.result or failed(finished.item, finished.error)


async def one_page(asking: Asking, images: SharedPageImages, read: PageReader) -> PageOutcome:
    """One try at a page; a blank one needs none. The picture is let go with the result."""
    if asking.picture is None:
        asking.picture = await images.take(asking.place)
    if asking.picture.blank:
        return PageOutcome(asking.page, 0, blank=True)
    try:
        text = await read(asking, images)
    except PageFailed as error:
        asking.last_error = error
        raise
    asking.picture = None
    return PageOutcome(asking.page, asking.requests, text)


def is_retryable(error: Exception) -> bool:
    return isinstance(error, PageFailed) and error.retryable


def failed(asking: Asking, error: Exception | None) -> PageOutcome:
    """The outcome of a page that failed for good. Raises what is no page's failure."""
    if not isinstance(error, PageFailed):
        raise error or RuntimeError("a page ended with neither result nor error")
    return PageOutcome(asking.page, asking.requests, error=error)
