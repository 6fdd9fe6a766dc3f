"""Opening a document with PDFium, and finding pages without ink; runs inside the sandbox."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pypdfium2 as pdfium

INK_DPI = 40
INK_SHARE = 0.001
"""A page with no more than this share of non-white pixels at 40 dpi is blank; OCR would invent text
for it (allenai/olmocr#292)."""

WHITE = 250
"""Grey levels from here up are paper: JPEG noise is not ink."""

MAX_POINTS = 14_400.0
"""The largest page PDF allows without a unit; bounds the bitmap of the ink check."""


class Opened(NamedTuple):
    """The document, and the child's first line: the number of pages, or why the file is refused."""

    document: Any
    first_line: dict[str, Any]


def open_document(path: str) -> Opened:
    try:
        document = pdfium.PdfDocument(path)
    except pdfium.PdfiumError as error:
        refused = "encrypted" if "password" in str(error).lower() else "damaged"
        return Opened(None, {"refused": refused, "detail": type(error).__name__})
    return Opened(document, {"count": len(document)})


def has_ink(page: Any) -> bool:
    return shows_ink(in_small(page))


def in_small(page: Any) -> Any:
    """The page as a small grey picture."""
    scale = INK_DPI / 72 * min(1.0, MAX_POINTS / max(page.get_size()))
    return page.render(scale=scale, grayscale=True).to_pil()


def reduced(drawn: Any, longest: float) -> Any:
    """A page of this length in points, as it is drawn, as a small grey picture."""
    times = math.ceil(max(drawn.size) / longest * 72 / INK_DPI)
    return (drawn.reduce(times) if times > 1 else drawn).convert("L")


def shows_ink(small: Any) -> bool:
    levels = small.histogram()
    return bool(sum(levels[:WHITE]) > INK_SHARE * sum(levels))
