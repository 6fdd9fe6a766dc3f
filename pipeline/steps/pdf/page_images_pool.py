"""Pictures of pages from several children, which share the pages of a document in turn.

One child draws and encodes 5 to 12 pages a second of dense text on a small machine, which is less
than an endpoint with many places can take.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from pipeline.steps.pdf.page_images import PageImages, Picture
from pipeline.steps.pdf.renderer import Drawing
from queuemgr import AbortSignal

PAGES_A_CHILD = 6
"""A child takes half a second to begin: it must have some pages to be worth it."""


class SharedPageImages:
    """As `PageImages`, of which it has `drawing.children`, or fewer for a short document. Each opens
    the document; a page that ends one is named, and the others go on."""

    def __init__(
        self, pdf: Path, pages: Sequence[int], window: int, drawing: Drawing, signal: AbortSignal
    ) -> None:
        self._count = max(1, min(drawing.children, len(pages) // PAGES_A_CHILD))
        share = max(1, window // self._count)
        self._parts = [
            PageImages(pdf, pages[first :: self._count], share, drawing, signal)
            for first in range(self._count)
        ]

    async def __aenter__(self) -> SharedPageImages:
        async with AsyncExitStack() as stack:
            for part in self._parts:
                await stack.enter_async_context(part)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def take(self, place: int) -> Picture:
        """The picture of the page at this place among all pages, once."""
        return await self._parts[place % self._count].take(place // self._count)

    async def turned(self, place: int, page: int, quarters: int) -> Picture:
        """The picture of a page turned counter-clockwise, by the child that drew it."""
        return await self._parts[place % self._count].turned(page, quarters)

    def handed_over(self, places: int) -> None:
        """The results of so many pages, from the first on, are gone."""
        for first, part in enumerate(self._parts):
            part.handed_over(max(0, -(-(places - first) // self._count)))
