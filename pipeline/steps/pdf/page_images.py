"""Pictures of pages from a child process that renders them ahead of the reader, within a window.

No page is rendered that is `window` or more after the oldest page not yet delivered. Within the window,
when fewer than `low` pictures are ready or requested, more are requested, up to `high`. Used on one
event loop; when the block ends, the child is killed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.steps.pdf.drawing_time import OVER, DrawingTime
from pipeline.steps.pdf.page_outcomes import EncodeError, PageFailed, PdfError
from pipeline.steps.pdf.renderer import RenderOptions, RenderProcess, RenderRequest
from queuemgr import Aborted, AbortSignal, StepFailed

START_SECONDS = 20.0
"""For imports and opening the document on a loaded machine."""

MAX_RESTARTS = 5
"""New children after pages that crashed theirs; then the document fails."""

IDLE_SECONDS = 0.5
"""How late the time limit of a page may start after a time without requests."""

HUNG = "it exceeded the time limit of a page"
GREEDY = "it needed more memory than allowed"
CRASHED = "it crashed the program rendering it"

KINDS = {HUNG: "resource_limit", GREEDY: "resource_limit", OVER: "resource_limit"}
"""The error kind by why a child ended; else the page is damaged."""


@dataclass(frozen=True)
class Picture:
    """A page as bytes; none for a `blank` one."""

    data: bytes
    blank: bool = False


class PageImages:
    """The pages of one document as pictures, in the order they are needed. `time`: what drawing them takes,
    with other children if they share it.

    Entering raises `StepFailed` (`encrypted`, `damaged`, `resource_limit`, `crashed`) if the document
    cannot be opened or no child can be started, and `Aborted`.
    """

    def __init__(
        self,
        pdf: Path,
        pages: Sequence[int],
        window: int,
        render: RenderOptions,
        signal: AbortSignal,
        *,
        low: int = 4,
        high: int = 12,
        time: DrawingTime | None = None,
    ) -> None:
        self._pdf, self._pages, self._render, self._signal = pdf, pages, render, signal
        self._window, self._low, self._high = window, low, high
        self._delivered = self._next = self._restarts = 0
        self._pending: deque[RenderRequest] = deque()
        self._futures: dict[RenderRequest, asyncio.Future[Picture]] = {}
        self._child: RenderProcess | None = None
        self._ended, self._kind = "", "damaged"
        self._fault: Exception | None = None
        self._time = time or DrawingTime(render.limits)
        self.count = 0

    async def __aenter__(self) -> PageImages:
        try:
            self._child = await self._opened()
        except OSError as error:
            raise start_failure(error) from error
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ended = "the work was stopped"
        self._reading.cancel()
        await asyncio.wait([self._reading])
        self._drop_child()
        for future in self._futures.values():
            future.cancel()

    async def take(self, index: int) -> Picture:
        """The picture of the page at this position among the pages, once.

        Raises `PdfError` or `EncodeError`; `StepFailed` or `Aborted` once no child can be started.
        """
        while self._next <= index:
            self._ask_next()
        return await self._taken((self._pages[index], 0))

    async def rotated(self, page: int, quarters: int) -> Picture:
        """The picture of a page rotated counter-clockwise, rendered again."""
        request = (page, quarters)
        self._ask(request)
        return await self._taken(request)

    def delivered(self, count: int) -> None:
        """Move the window on: the results of the first `count` pages have been delivered."""
        self._delivered = count
        self._refill()

    async def _taken(self, request: RenderRequest) -> Picture:
        try:
            return await self._futures[request]
        finally:
            self._futures.pop(request, None)
            self._refill()

    def _refill(self) -> None:
        """Request pages ahead: when below the low mark, up to the high one, within the window."""
        if len(self._futures) >= self._low or self._ended:
            return
        end = min(len(self._pages), self._delivered + self._window)
        while self._next < end and len(self._futures) < self._high:
            self._ask_next()

    def _ask_next(self) -> None:
        self._ask((self._pages[self._next], 0))
        self._next += 1

    def _ask(self, request: RenderRequest) -> None:
        self._futures[request] = future = asyncio.get_running_loop().create_future()
        future.add_done_callback(_retrieved)
        if self._ended:
            future.set_exception(self._failure())
            return
        self._pending.append(request)
        if self._child is not None:
            self._child.ask(request)

    async def _opened(self) -> RenderProcess:
        """A child that has opened the document."""
        child = RenderProcess(self._pdf, self._render)
        try:
            with self._signal.hooked(child.kill):
                async with asyncio.timeout(START_SECONDS + self._render.limits.page_seconds):
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
        raise refusal({"died": "memory"} if child.ran_out_of_memory else line)

    async def _read(self) -> None:
        """Resolve the futures of pictures; a page that hangs or crashes its child fails alone.

        However this ends, no future is left unresolved.
        """
        try:
            while self._child is not None:
                reason = await self._until_it_ends(child := self._child)
                self._drop_child()
                if reason == CRASHED and child.ran_out_of_memory:
                    reason = GREEDY
                if reason == HUNG:
                    self._time.lose(self._render.limits.page_seconds)
                self._kind = KINDS.get(reason, "damaged")
                self._fail_oldest(PdfError(f"The page could not be rendered: {reason}.", kind=self._kind))
                await self._restart()
        except Exception as error:  # of any kind: pages are waiting
            self._fault = error if isinstance(error, Aborted) else start_failure(error)
            self._end(str(error))

    async def _until_it_ends(self, child: RenderProcess) -> str:
        """Process its output; returns why it ended, in words."""
        while True:
            try:
                line = await self._line(child)
                if "page" not in line:
                    return GREEDY if died_of_memory(line) else CRASHED
                async with asyncio.timeout(self._render.limits.page_seconds):
                    data = await child.picture(int(line.get("size", 0)))
                self._resolve((int(line["page"]), int(line["quarters"])), line, data)
                self._time.add(float(line["seconds"]))
                if self._time.is_over:
                    return OVER
            except TimeoutError:
                return HUNG
            except (asyncio.IncompleteReadError, ValueError, KeyError, TypeError):
                return CRASHED

    async def _line(self, child: RenderProcess) -> dict[str, Any]:
        """The next line; a page's time limit runs only while one is requested."""
        waiting = asyncio.ensure_future(child.line())
        try:
            while not self._pending and not waiting.done():
                await asyncio.wait([waiting], timeout=IDLE_SECONDS)
            async with asyncio.timeout(self._render.limits.page_seconds):
                return await waiting
        finally:
            waiting.cancel()

    def _resolve(self, request: RenderRequest, line: dict[str, Any], data: bytes) -> None:
        self._pending.remove(request)
        future = self._futures.get(request)
        if future is None or future.done():
            return
        if error := line.get("error"):
            future.set_exception(page_error(str(error), line.get("stage") == "encode"))
        else:
            future.set_result(Picture(data, bool(line.get("blank"))))

    def _fail_oldest(self, error: Exception) -> None:
        future = self._futures.get(self._pending.popleft()) if self._pending else None
        if future is not None and not future.done():
            future.set_exception(error)

    def _failure(self) -> Exception:
        return self._fault or PdfError(f"The page was not rendered: {self._ended}.", kind=self._kind)

    def _end(self, reason: str) -> None:
        """Render nothing more, and fail all pending requests."""
        self._ended = reason.rstrip(".") or "rendering has ended"
        while self._pending:
            self._fail_oldest(self._failure())

    async def _restart(self) -> None:
        """Start a new child. Raises `Aborted`, and `OSError` if the machine cannot start one."""
        self._restarts += 1
        try:
            if self._time.is_over:
                raise StepFailed("resource_limit", OVER)
            if self._restarts > MAX_RESTARTS:
                raise StepFailed("crashed", "too many of its pages crashed the program rendering them")
            child = await self._opened()
        except StepFailed as failure:
            self._kind = failure.kind if failure.kind == "resource_limit" else self._kind
            self._end(failure.message)
            return
        for request in self._pending:
            child.ask(request)
        self._child = child

    def _drop_child(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None


def _retrieved(future: asyncio.Future[Picture]) -> None:
    """Mark the exception as retrieved: asyncio would log that of a picture nobody took."""
    if not future.cancelled():
        future.exception()


def page_error(error: str, when_encoding: bool) -> PageFailed:
    if when_encoding:
        return EncodeError(f"The page could not be encoded as a picture ({error}).")
    return PdfError(f"The page could not be rendered ({error}).")


def start_failure(error: Exception) -> StepFailed:
    """No child could be started, which is a temporary problem of the machine."""
    known = isinstance(error, OSError) and error.strerror
    reason = error.strerror if isinstance(error, OSError) and known else type(error).__name__
    return StepFailed("crashed", f"The program that renders pages could not be started ({reason}).")


def died_of_memory(line: dict[str, Any]) -> bool:
    return bool(line.get("died") == "memory")


def refusal(line: dict[str, Any]) -> StepFailed:
    """Why a document could not be opened."""
    if line.get("refused") == "encrypted":
        return StepFailed("encrypted", "The PDF requires a password, so its pages cannot be rendered.")
    if line.get("refused"):
        return StepFailed("damaged", "The PDF is damaged: its pages cannot be rendered for OCR.")
    if died_of_memory(line):
        return StepFailed("resource_limit", "The PDF needs more memory to open than allowed.")
    return StepFailed("crashed", "The PDF crashed the program opening it, or took too long to open.")
