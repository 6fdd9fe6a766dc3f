"""Pages read by eye: PDFium renders, RapidOCR recognises; runs inside the sandbox.

Everything is local: the models are those in RapidOCR's own wheel, nothing is fetched. Heavy
imports wait until a page needs them, so a document of blank pages costs a tenth of a second.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pypdfium2 as pdfium

Line = dict[str, Any]

INK_DPI = 40
INK_SHARE = 0.001
"""A page with no more non-white pixels than this at 40 dpi is blank; asked anyway, an engine
invents text (allenai/olmocr#292)."""

WHITE = 250
"""Grey levels from here up count as paper: JPEG noise is not ink."""

LONGEST_POINTS = 14_400
"""The largest page PDF allows without a unit; only used to keep the ink check's bitmap small."""

UNSURE = 0.85
"""Mean line score below which the page is also tried upside down; good scans give 0.94 to 1.0."""

TALL = 1.5
"""Height by width from which a line of text counts as vertical."""

GUTTER_ZONE = (0.4, 0.6)
"""Where a gutter between two columns may be, as shares of the text's width."""

CROSSING_SHARE = 0.25
"""A gutter may be crossed by fewer boxes than this: titles, wide figures and their captions."""


@dataclass(frozen=True)
class Box:
    """A recognised piece of a line; pixels from the page's top left corner."""

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


def lines(order: Mapping[str, Any]) -> Iterator[Line]:
    """The number of pages, then per page `page`, `text`, `score`, or `blank`, or `error`."""
    try:
        document = pdfium.PdfDocument(order["pdf"])
    except pdfium.PdfiumError as error:
        refused = "encrypted" if "password" in str(error).lower() else "damaged"
        yield {"refused": refused, "detail": "PdfiumError"}
        return
    yield {"count": len(document)}
    reader = Reader(int(order["threads"]), int(order["longest_px"]))
    for number in order["pages"]:
        yield {"page": number, **read(reader, document, number)}


def read(reader: Reader, document: Any, number: int) -> Line:
    """One page; what PDFium or the engine raises over it is a fact about the page."""
    if not 1 <= number <= len(document):
        return {"error": "no such page"}
    try:
        return reader.read(document[number - 1])
    except MemoryError:
        raise
    except Exception as error:
        return {"error": type(error).__name__}


class Reader:
    """Renders and recognises; the engine is loaded for the first page that has ink."""

    def __init__(self, threads: int, longest_px: int) -> None:
        self._threads = threads
        self._longest_px = longest_px
        self._engine: Any = None

    def read(self, page: Any) -> Line:
        if not has_ink(page):
            return {"text": "", "blank": True}
        image = rendered(page, self._longest_px)
        boxes, score = best = self._recognised(image)
        for turns in turns_worth_trying(boxes, score):
            best = max(best, self._recognised(turned(image, turns)), key=lambda found: found[1])
        return {"text": in_reading_order(best[0]), "score": round(best[1], 3)}

    def _recognised(self, image: Any) -> tuple[list[Box], float]:
        """The boxes with text, and their mean score between 0 and 1 (0 for none at all)."""
        self._engine = self._engine or new_engine(self._threads)
        found = self._engine(image)
        if found.boxes is None or not found.txts:
            return [], 0.0
        boxes = [
            boxed(corners.tolist(), text)
            for corners, text in zip(found.boxes, found.txts, strict=True)
        ]
        return boxes, statistics.fmean(map(float, found.scores))


def boxed(corners: list[list[float]], text: str) -> Box:
    """The upright box around the corners of a piece of text, which may be askew."""
    across, down = [x for x, _ in corners], [y for _, y in corners]
    return Box(min(across), min(down), max(across), max(down), text)


def new_engine(threads: int) -> Any:
    """RapidOCR with the wheel's own models; more threads than asked would starve other work."""
    from rapidocr import RapidOCR

    return RapidOCR(
        params={
            "Global.log_level": "critical",
            # It turns single lines round, which leaves the order of an upside-down page reversed.
            "Global.use_cls": False,
            "EngineConfig.onnxruntime.intra_op_num_threads": threads,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )


def has_ink(page: Any) -> bool:
    grey = rendered(page, longest_px=LONGEST_POINTS, dpi=INK_DPI, grey=True)
    return bool((grey < WHITE).mean() > INK_SHARE)


def rendered(page: Any, longest_px: int, dpi: int = 300, grey: bool = False) -> Any:
    """The page as an array, its longest side at most `longest_px`, at most `dpi`.

    The longest side is bounded, not the scale: a page may be 200 inches wide.
    """
    scale = min(longest_px / max(page.get_size()), dpi / 72)
    return page.render(scale=scale, grayscale=grey).to_numpy()


def turned(image: Any, quarters: int) -> Any:
    """A copy of the image, turned counter-clockwise by so many quarters."""
    flipped = image[::-1, ::-1] if quarters == 2 else image.swapaxes(0, 1)
    if quarters == 1:
        flipped = flipped[::-1]
    if quarters == 3:
        flipped = flipped[:, ::-1]
    return flipped.copy()


def turns_worth_trying(boxes: Sequence[Box], score: float) -> tuple[int, ...]:
    """Quarter turns to try besides the page as it is: tall lines lie on their side, or are
    vertical writing; a low score may be a page upside down."""
    if is_vertical(boxes):
        return (1, 3)
    return (2,) if score < UNSURE else ()


def is_vertical(boxes: Sequence[Box]) -> bool:
    """Whether most of the lines are taller than wide."""
    lines_of_text = [box for box in boxes if len(box.text) > 1]
    tall = sum(box.height > TALL * (box.right - box.left) for box in lines_of_text)
    return 2 * tall > len(lines_of_text)


def in_reading_order(boxes: Iterable[Box]) -> str:
    """The text of a page: two columns are read left then right, between what spans both.

    Vertical writing is read column by column from the right.
    """
    boxes = sorted(boxes, key=lambda box: box.middle)
    if is_vertical(boxes):
        return "\n".join(box.text for box in sorted(boxes, key=lambda box: -box.right))
    gutter = gutter_of(boxes)
    if gutter is None:
        return "\n".join(rows(boxes))
    return "\n".join(row for band in bands(boxes, gutter) for row in rows(band))


def gutter_of(boxes: list[Box]) -> float | None:
    """The x that parts the page in two columns, or None for one column.

    Of the places in the middle fifth crossed by the fewest boxes, the middle one; it counts when
    under a quarter of the boxes cross it and each side holds at least a quarter.
    """
    if len(boxes) < 4:
        return None
    left, right = min(box.left for box in boxes), max(box.right for box in boxes)
    places = [left + (right - left) * percent / 100 for percent in gutter_percents()]
    crossed = [sum(crosses(box, x) for box in boxes) for x in places]
    fewest = min(crossed)
    best = [x for x, count in zip(places, crossed, strict=True) if count == fewest]
    gutter = best[len(best) // 2]
    beside = min(
        sum(box.right <= gutter for box in boxes), sum(box.left >= gutter for box in boxes)
    )
    if fewest >= CROSSING_SHARE * len(boxes) or beside < len(boxes) / 4:
        return None
    return gutter


def gutter_percents() -> range:
    return range(round(GUTTER_ZONE[0] * 100), round(GUTTER_ZONE[1] * 100) + 1)


def crosses(box: Box, x: float) -> bool:
    return box.left < x < box.right


def bands(boxes: list[Box], gutter: float) -> Iterator[list[Box]]:
    """From top to bottom: the left column, the right column, then what spans both, and again."""
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
    """Boxes side by side joined to lines: within half a height of the row's first box."""
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
