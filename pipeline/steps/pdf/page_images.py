"""Pictures of pages from a child process that draws them ahead of the reader, and not too far.

The window is kept here too: no page is drawn that is `window` or more behind the oldest page not
yet handed over. Within it the child is asked for more when fewer than `low` pictures lie ready or
are on their way, and up to `high`. One event loop; when the block is left the child is gone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.steps.pdf.page_outcomes import EncodeError, PageFailed, PdfError
from pipeline.steps.pdf.renderer import Demand, Drawer, Drawing
from queuemgr import Aborted, AbortSignal, StepFailed

START_SECONDS = 20.0
"""For imports and opening the document, on a loaded machine."""

MAX_RESTARTS = 5
"""Fresh children after pages that ended theirs; then the document is given up."""

IDLE_SECONDS = 0.5
"""How late the clock of a page may start to run after a time in which none was asked for."""

HUNG = "it took longer than a page may"
CRASHED = "it ended the program drawing it"


@dataclass(frozen=True)
class Picture:
    """A page as bytes; none for a `blank` one."""

    data: bytes
    blank: bool = False


class PageImages:
    """The pages of one document as pictures, in the order they will be wanted.

    Entering raises `StepFailed` (`encrypted`, `damaged`, `resource_limit`, `crashed`) when the
    document cannot be opened or no child can be started, and `Aborted`.
    """

    def __init__(
        self,
        pdf: Path,
        pages: Sequence[int],
        window: int,
        drawing: Drawing,
        signal: AbortSignal,
        *,
        low: int = 4,
        high: int = 12,
    ) -> None:
        self._pdf, self._pages, self._drawing, self._signal = pdf, pages, drawing, signal
        self._window, self._low, self._high = window, low, high
        self._handed_over = self._next = self._restarts = 0
        self._asked: deque[Demand] = deque()
        self._kept: dict[Demand, asyncio.Future[Picture]] = {}
        self._child: Drawer | None = None
        self._over = ""
        self._fault: Exception | None = None
        self.count = 0

    async def __aenter__(self) -> PageImages:
        try:
            self._child = await self._opened()
        except OSError as error:
            raise not_started(error) from error
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._over = "the work was stopped"
        self._reading.cancel()
        await asyncio.wait([self._reading])
        self._drop_child()
        for future in self._kept.values():
            future.cancel()

    async def take(self, place: int) -> Picture:
        """The picture of the page at this place among the pages, once.

        Raises `PdfError` or `EncodeError`; once no child can be started any more, which is no
        fault of the pages, `StepFailed`, or `Aborted` when that is why.
        """
        while self._next <= place:
            self._ask_next()
        return await self._taken((self._pages[place], 0))

    async def turned(self, page: int, quarters: int) -> Picture:
        """The picture of a page turned counter-clockwise, drawn anew."""
        demand = (page, quarters)
        self._ask(demand)
        return await self._taken(demand)

    def handed_over(self, places: int) -> None:
        """The results of so many pages, from the first on, are gone: the window moves on."""
        self._handed_over = places
        self._refill()

    async def _taken(self, demand: Demand) -> Picture:
        try:
            return await self._kept[demand]
        finally:
            self._kept.pop(demand, None)
            self._refill()

    def _refill(self) -> None:
        """Ask for pages ahead: from below the low mark up to the high one, within the window."""
        if len(self._kept) >= self._low or self._over:
            return
        end = min(len(self._pages), self._handed_over + self._window)
        while self._next < end and len(self._kept) < self._high:
            self._ask_next()

    def _ask_next(self) -> None:
        self._ask((self._pages[self._next], 0))
        self._next += 1

    def _ask(self, demand: Demand) -> None:
        self._kept[demand] = future = asyncio.get_running_loop().create_future()
        future.add_done_callback(_looked_at)
        if self._over:
            future.set_exception(self._not_drawn())
            return
        self._asked.append(demand)
        if self._child is not None:
            self._child.ask(demand)

    async def _opened(self) -> Drawer:
        """A child with the document open."""
        child = Drawer(self._pdf, self._drawing)
        try:
            with self._signal.hooked(child.kill):
                async with asyncio.timeout(START_SECONDS + self._drawing.page_seconds):
                    line = await child.opened()
        except (TimeoutError, ValueError):
            line = {}
        except BaseException:
            child.close()
            raise
        if "count" in line:
            self.count = int(line["count"])
            return child
        child.close()
        self._signal.raise_if_aborted()
        raise refusal(line)

    async def _read(self) -> None:
        """Hand out what comes; a page that hangs or ends its child costs itself alone.

        However this ends, nobody is left waiting for a picture.
        """
        try:
            while self._child is not None:
                reason = await self._until_it_ends(self._child)
                self._drop_child()
                self._fail_first(PdfError(f"The page could not be drawn: {reason}."))
                await self._start_again()
        except Exception as error:  # whatever it was, pages wait
            self._fault = error if isinstance(error, Aborted) else not_started(error)
            self._end(str(error))

    async def _until_it_ends(self, child: Drawer) -> str:
        """Why it ended, in words."""
        while True:
            try:
                line = await self._line(child)
                if "page" not in line:
                    return "it needed more memory than allowed" if died_of_memory(line) else CRASHED
                async with asyncio.timeout(self._drawing.page_seconds):
                    data = await child.picture(int(line.get("size", 0)))
                self._hand_out((int(line["page"]), int(line["turn"])), line, data)
            except TimeoutError:
                return HUNG
            except (asyncio.IncompleteReadError, ValueError, KeyError, TypeError):
                return CRASHED

    async def _line(self, child: Drawer) -> dict[str, Any]:
        """The next line; a page's time runs only while one is asked for."""
        waiting = asyncio.ensure_future(child.line())
        try:
            while not self._asked and not waiting.done():
                await asyncio.wait([waiting], timeout=IDLE_SECONDS)
            async with asyncio.timeout(self._drawing.page_seconds):
                return await waiting
        finally:
            waiting.cancel()

    def _hand_out(self, demand: Demand, line: dict[str, Any], data: bytes) -> None:
        self._asked.remove(demand)
        future = self._kept.get(demand)
        if future is None or future.done():
            return
        if error := line.get("error"):
            future.set_exception(not_drawn(str(error), line.get("stage") == "encode"))
        else:
            future.set_result(Picture(data, bool(line.get("blank"))))

    def _fail_first(self, error: Exception) -> None:
        future = self._kept.get(self._asked.popleft()) if self._asked else None
        if future is not None and not future.done():
            future.set_exception(error)

    def _not_drawn(self) -> Exception:
        return self._fault or PdfError(f"The page was not drawn: {self._over}.")

    def _end(self, reason: str) -> None:
        """Draw nothing more, and say so to all who wait."""
        self._over = reason.rstrip(".") or "the drawing ended"
        while self._asked:
            self._fail_first(self._not_drawn())

    async def _start_again(self) -> None:
        """Raises `Aborted`, and `OSError` when the machine has no room for a child."""
        self._restarts += 1
        try:
            if self._restarts > MAX_RESTARTS:
                raise StepFailed("crashed", "too many of its pages ended the program drawing them")
            child = await self._opened()
        except StepFailed as failure:
            self._end(failure.message)
            return
        for demand in self._asked:
            child.ask(demand)
        self._child = child

    def _drop_child(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None


def _looked_at(future: asyncio.Future[Picture]) -> None:
    """A picture nobody came for must not be reported as an exception never retrieved."""
    if not future.cancelled():
        future.exception()


def not_drawn(error: str, when_encoding: bool) -> PageFailed:
    if when_encoding:
        return EncodeError(f"The page could not be made a picture ({error}).")
    return PdfError(f"The page could not be drawn ({error}).")


def not_started(error: Exception) -> StepFailed:
    """No child could be had: a matter of the machine, and of the moment."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
    return StepFailed("crashed", f"The program that draws pages could not be started ({why}).")


def died_of_memory(line: dict[str, Any]) -> bool:
    return bool(line.get("died") == "memory")


def refusal(line: dict[str, Any]) -> StepFailed:
    """Why a document could not be opened."""
    if line.get("refused") == "encrypted":
        return StepFailed("encrypted", "The PDF asks for a password, so its pages cannot be drawn.")
    if line.get("refused"):
        return StepFailed("damaged", "The PDF is damaged: its pages cannot be drawn for OCR.")
    if died_of_memory(line):
        return StepFailed("resource_limit", "The PDF needs more memory to open than allowed.")
    return StepFailed("crashed", "The PDF ended the program opening it, or took too long to open.")
