"""Pictures of pages from several child processes, which take the pages of a document in turn.

One child renders and encodes 5 to 12 pages a second of dense text on a small machine, less than a
fast endpoint can take.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from pipeline.steps.pdf.drawing_time import DrawingTime
from pipeline.steps.pdf.page_images import PageImages, Picture
from pipeline.steps.pdf.renderer import RenderOptions
from queuemgr import AbortSignal

PAGES_A_CHILD = 6
"""A child takes half a second to start, so it must have some pages to be worth it."""


AHEAD = 8
"""Pictures that are ready or on their way, of all children, beside those that are being read."""


class SharedPageImages:
    """Like `PageImages`, with `render.children` of them, or fewer for a short document. Each opens the
    document; a page that crashes one fails, and the others continue."""

    def __init__(
        self, pdf: Path, pages: Sequence[int], window: int, render: RenderOptions, signal: AbortSignal
    ) -> None:
        self._count = max(1, min(render.children, len(pages) // PAGES_A_CHILD))
        share, ahead = max(1, window // self._count), max(1, AHEAD // self._count)
        time = DrawingTime(render.limits)
        self._workers = [
            PageImages(
                pdf, pages[first :: self._count], share, render, signal, low=ahead, high=ahead, time=time
            )
            for first in range(self._count)
        ]

    async def __aenter__(self) -> SharedPageImages:
        async with AsyncExitStack() as stack:
            for worker in self._workers:
                await stack.enter_async_context(worker)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def take(self, index: int) -> Picture:
        """The picture of the page at this position among all pages, once."""
        return await self._workers[index % self._count].take(index // self._count)

    async def rotated(self, index: int, page: int, quarters: int) -> Picture:
        """The picture of a page rotated counter-clockwise, by the child that rendered it."""
        return await self._workers[index % self._count].rotated(page, quarters)

    def delivered(self, count: int) -> None:
        """The results of the first `count` pages have been delivered."""
        for first, worker in enumerate(self._workers):
            worker.delivered(max(0, -(-(count - first) // self._count)))
