"""Pages read by RapidOCR in the sandbox: no key, no network, no download, one page at a time."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pipeline.steps.pdf.drawing_time import DrawingLimits, DrawingTime
from pipeline.steps.pdf.page_images import refusal
from pipeline.steps.pdf.page_outcomes import PageFailed, PageOutcome, ParseError, PdfError, Timeout
from pipeline.steps.pdf.sandbox import (
    MAX_RESTARTS,
    Child,
    Ending,
    LimitExceeded,
    Line,
    ResourceLimits,
    describe,
    died,
    output_limit,
)
from queuemgr import AbortSignal, StepFailed

CHILD = Path(__file__).parent.parent / "pdf" / "ocr_child.py"

NEEDED = ("pypdfium2", "rapidocr", "onnxruntime")


@dataclass(frozen=True)
class LocalOptions:
    """Limits of the local engines. A page takes 3 to 9 s on one thread of a small machine.

    Seconds are wall time. `memory_bytes` is the child's address space, of which onnxruntime maps 1.8
    to 2.3 GiB. `longest_px` is the rendered page's longest side; more does not improve the result.
    """

    page_seconds: float = 120.0
    document_seconds: float = 1800.0
    memory_bytes: int = 4 << 30
    threads: int = 1
    longest_px: int = 1600
    max_chars: int = 5_000_000
    drawing: DrawingLimits = field(default_factory=DrawingLimits)


def missing() -> tuple[str, ...]:
    """The packages the engine needs that are not installed."""
    return tuple(name for name in NEEDED if find_spec(name) is None)


def read_by_rapidocr(
    pdf: Path, pages: Sequence[int], options: LocalOptions, signal: AbortSignal
) -> Generator[PageOutcome, None, None]:
    """An outcome for each page, in order, as soon as it is read.

    A page that hangs or crashes its child fails, and the others are still read. Raises `StepFailed`
    if the document cannot be opened, and `Aborted`.
    """
    job = {"pdf": str(pdf.resolve()), "threads": options.threads, "longest_px": options.longest_px}
    limits = ResourceLimits(
        options.drawing.page_seconds,
        options.document_seconds,
        options.memory_bytes,
        output_bytes=output_limit(options.max_chars),
        threads=options.threads,
        starts_threads=True,
    )
    deadline = time.monotonic() + options.document_seconds
    drawing = DrawingTime(options.drawing)
    done = 0
    for _ in range(MAX_RESTARTS + 1):
        before = done
        child = OneChild(job, pages[done:], limits, deadline, signal, drawing, options.page_seconds)
        with closing(child.outcomes()) as outcomes:
            for outcome in outcomes:
                done += 1
                yield outcome
        if done == len(pages) or child.ending.reason in OF_DOCUMENT:
            break
        # Earlier pages may have filled the memory: then a new child tries this one again.
        if child.ending.reason != "memory" or done == before:
            yield unread(pages[done], child.ending)
            done += 1
    for page in pages[done:]:
        yield unread(page, child.ending)


OF_DOCUMENT = ("document_seconds", "drawing_seconds", "output_bytes")
"""Endings after which another child would read no page."""


class OneChild:
    """One child from start to end; `ending`: how it ended."""

    def __init__(
        self,
        job: Mapping[str, Any],
        pages: Sequence[int],
        limits: ResourceLimits,
        deadline: float,
        signal: AbortSignal,
        drawing: DrawingTime,
        page_seconds: float,
    ) -> None:
        self._drawing, self._draws, self._page_seconds = drawing, False, page_seconds
        self._job = {**job, "pages": list(pages)}
        self._limits, self._deadline, self._signal = limits, deadline, signal
        self._opened = False
        self.ending = Ending()

    def outcomes(self) -> Generator[PageOutcome, None, None]:
        """The outcomes of the pages it read. Raises `StepFailed` if it could not open the document,
        and `Aborted`."""
        with Child(CHILD, self._job, self._limits) as child, self._signal.hooked(child.kill):
            try:
                for line in child.lines(self._deadline):
                    if "drawn" in line:
                        self._draws = False
                        self._drawing.add(float(line["seconds"]))
                        child.allow(self._page_seconds)
                    elif "page" in line:
                        yield outcome_of(line)
                        self._draws = True
                        if self._drawing.is_over:
                            self.ending = Ending("drawing_seconds")
                            break
                    elif self._ends(line):
                        break
                else:
                    self.ending = child.ending()
            except LimitExceeded as limit:
                self.ending = self._limited(limit)
            except (TypeError, ValueError):
                self.ending = Ending("crashed", "invalid output")
        self._signal.raise_if_aborted()
        if not self._opened:
            kind = "crashed" if self.ending.reason == "crashed" else "resource_limit"
            reason = describe(self.ending)
            raise StepFailed(kind, f"The PDF could not be opened for OCR: {reason}.")

    def _limited(self, limit: LimitExceeded) -> Ending:
        """The ending by a limit; a page that was being drawn took time from those after it."""
        if self._draws and limit.reason == "page_seconds":
            self._drawing.lose(self._limits.page_seconds)
        return Ending("drawing_seconds" if self._drawing.is_over else limit.reason)

    def _ends(self, line: Line) -> bool:
        """Process a line about the whole document; returns whether it is the last."""
        if "refused" in line:
            raise refusal(line)
        self._opened = self._draws = self._opened or "count" in line
        if "died" in line:
            self.ending = died(line)
        return "end" in line or "died" in line


def outcome_of(line: Line) -> PageOutcome:
    """The outcome in one line of the child."""
    page, text = int(line["page"]), str(line.get("text", ""))
    if line.get("blank"):
        return PageOutcome(page, 0, blank=True)
    if error := line.get("error"):
        return PageOutcome(
            page, 0, error=PdfError(f"The page could not be rendered or recognised ({error}).")
        )
    if not text.strip():
        return PageOutcome(page, 1, error=ParseError("The page has ink, but no text was found on it."))
    return PageOutcome(page, 1, text)


def unread(page: int, ending: Ending) -> PageOutcome:
    """A page its child did not reach or did not survive."""
    error_type: type[PageFailed] = PdfError
    if ending.reason.endswith("_seconds"):
        error_type = Timeout
    kind = "crashed" if ending.reason == "crashed" else "resource_limit"
    reason = describe(ending) or "no result"
    return PageOutcome(
        page, 1, error=error_type(f"The page was not read: {reason}.", kind=kind, retryable=False)
    )
