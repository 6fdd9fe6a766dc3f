"""OCR of pages: PDFium renders, RapidOCR recognises; runs inside the sandbox.

Everything is local: the models are those in RapidOCR's own wheel. Heavy imports wait until a page needs
them, so a document of blank pages takes a tenth of a second.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.steps.pdf.column_order import LEAST_LINES
from pipeline.steps.pdf.page_errors import errors_of_page, page_of
from pipeline.steps.pdf.pdfium_document import has_ink, open_document

Line = dict[str, Any]

UNSURE = 0.85
"""Mean line score below which the page is also tried upside down; good scans have 0.94 to 1.0."""

TALL = 1.5
"""Ratio of height to width from which a line of text counts as vertical."""

GUTTER_ZONE = (0.4, 0.6)
"""Where the gap between two columns may be, as shares of the text's width."""

CROSSING_SHARE = 0.25
"""The gap may be crossed by less than this share of boxes: titles, wide figures, captions."""


PROSE = 0.25
"""The least share of the text's width that half of a short column's boxes have."""


@dataclass(frozen=True)
class Box:
    """A recognised piece of a line; in pixels from the page's top left corner."""

    left: float
    top: float
    right: float
    bottom: float
    text: str

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2

    @property
    def height(self) -> float:
        return self.bottom - self.top


def lines(job: Mapping[str, Any]) -> Iterator[Line]:
    """The number of pages, then per page `drawn` with the `seconds` it took, and `page`, `text`, `score`, or
    `blank`, or `error`."""
    document, opened = open_document(job["pdf"])
    yield opened
    if document is None:
        return
    reader = Reader(int(job["threads"]))
    for number in job["pages"]:
        line: Line = {}
        image, began = None, time.thread_time()
        with errors_of_page(line):
            image = drawn(page_of(document, number), int(job["longest_px"]))
        yield {"drawn": number, "seconds": time.thread_time() - began}
        with errors_of_page(line):
            line = line or reader.read(image)
        yield {"page": number, **line}


def drawn(page: Any, longest_px: int) -> Any:
    """The page as an array, or None for one without ink."""
    return rendered(page, longest_px) if has_ink(page) else None


class Reader:
    """Recognises; the engine is loaded for the first page that has ink."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._engine: Any = None

    def read(self, image: Any) -> Line:
        if image is None:
            return {"text": "", "blank": True}
        boxes, score = best = self._recognised(image)
        for turns in turns_worth_trying(boxes, score):
            best = max(best, self._recognised(rotated(image, turns)), key=lambda found: found[1])
        return {"text": in_reading_order(best[0]), "score": round(best[1], 3)}

    def _recognised(self, image: Any) -> tuple[list[Box], float]:
        """The boxes with text, and their mean score between 0 and 1 (0 if there are none)."""
        self._engine = self._engine or new_engine(self._threads)
        found = self._engine(image)
        if found.boxes is None or not found.txts:
            return [], 0.0
        boxes = [boxed(corners.tolist(), text) for corners, text in zip(found.boxes, found.txts, strict=True)]
        return boxes, statistics.fmean(map(float, found.scores))


def boxed(corners: list[list[float]], text: str) -> Box:
    """The upright box around the corners of a piece of text, which may be tilted."""
    across, down = [x for x, _ in corners], [y for _, y in corners]
    return Box(min(across), min(down), max(across), max(down), text)


def new_engine(threads: int) -> Any:
    """RapidOCR with the wheel's own models, limited to `threads`."""
    from rapidocr import RapidOCR

    return RapidOCR(
        params={
            "Global.log_level": "critical",
            # It rotates single lines, which would reverse the order of an upside-down page.
            "Global.use_cls": False,
            "EngineConfig.onnxruntime.intra_op_num_threads": threads,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )


def rendered(page: Any, longest_px: int, dpi: int = 300) -> Any:
    """The page as an array, its longest side at most `longest_px`, at most `dpi`.

    The longest side is bounded, not the scale, since a page may be 200 inches wide.
    """
    scale = min(longest_px / max(page.get_size()), dpi / 72)
    return page.render(scale=scale).to_numpy()


def rotated(image: Any, quarters: int) -> Any:
    """A copy of the image, rotated counter-clockwise by quarter turns."""
    flipped = image[::-1, ::-1] if quarters == 2 else image.swapaxes(0, 1)
    if quarters == 1:
        flipped = flipped[::-1]
    if quarters == 3:
        flipped = flipped[:, ::-1]
    return flipped.copy()


def turns_worth_trying(boxes: Sequence[Box], score: float) -> tuple[int, ...]:
    """Quarter turns to try besides the page as it is: tall lines mean a page on its side, or vertical
    writing; a low score may mean an upside-down page."""
    if is_vertical(boxes):
        return (1, 3)
    return (2,) if score < UNSURE else ()


def is_vertical(boxes: Sequence[Box]) -> bool:
    """Whether most of the lines are taller than wide."""
    lines_of_text = [box for box in boxes if len(box.text) > 1]
    tall = sum(box.height > TALL * (box.right - box.left) for box in lines_of_text)
    return 2 * tall > len(lines_of_text)


def in_reading_order(boxes: Iterable[Box]) -> str:
    """The text of a page. Of two columns the left is read before the right, between lines that span
    both; vertical writing is read column by column from the right."""
    boxes = sorted(boxes, key=lambda box: box.middle)
    if is_vertical(boxes):
        return "\n".join(box.text for box in sorted(boxes, key=lambda box: -box.right))
    gutter = gutter_of(boxes)
    if gutter is None:
        return "\n".join(rows(boxes))
    return "\n".join(row for band in bands(boxes, gutter) for row in rows(band))


def gutter_of(boxes: list[Box]) -> float | None:
    """The x that separates two columns, or None for one column.

    Of the positions in the middle fifth that the fewest boxes cross, the middle one; it counts if less
    than a quarter of the boxes cross it, and each side has at least a quarter, or lines of prose.
    """
    if len(boxes) < 4:
        return None
    left, right = min(box.left for box in boxes), max(box.right for box in boxes)
    positions = [left + (right - left) * percent / 100 for percent in gutter_percents()]
    crossed = [sum(crosses(box, x) for box in boxes) for x in positions]
    fewest = min(crossed)
    best = [x for x, count in zip(positions, crossed, strict=True) if count == fewest]
    gutter = best[len(best) // 2]
    sides = [box for box in boxes if box.right <= gutter], [box for box in boxes if box.left >= gutter]
    has_two = min(map(len, sides)) >= len(boxes) / 4 or all(is_prose(side, right - left) for side in sides)
    return gutter if has_two and fewest < CROSSING_SHARE * len(boxes) else None


def is_prose(side: Sequence[Box], width: float) -> bool:
    """Whether these are lines of a column, which may be short, and not of a table's."""
    widths = [box.right - box.left for box in side]
    return len(side) >= LEAST_LINES and statistics.median(widths) >= PROSE * width


def gutter_percents() -> range:
    return range(round(GUTTER_ZONE[0] * 100), round(GUTTER_ZONE[1] * 100) + 1)


def crosses(box: Box, x: float) -> bool:
    return box.left < x < box.right


def bands(boxes: list[Box], gutter: float) -> Iterator[list[Box]]:
    """From top to bottom: the left column, the right column, then a box that spans both, and so on."""
    left: list[Box] = []
    right: list[Box] = []
    for box in boxes:
        if crosses(box, gutter):
            yield from (left, right, [box])
            left, right = [], []
        else:
            (left if box.right <= gutter else right).append(box)
    yield from (left, right)


def rows(boxes: Iterable[Box]) -> Iterator[str]:
    """Boxes side by side joined to lines: those within half the height of the row's first box."""
    row: list[Box] = []
    for box in boxes:
        if row and box.middle - row[0].middle > row[0].height / 2:
            yield joined(row)
            row = []
        row.append(box)
    if row:
        yield joined(row)


def joined(row: list[Box]) -> str:
    return " ".join(box.text for box in sorted(row, key=lambda box: box.left))
