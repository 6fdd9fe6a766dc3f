"""How much of a page lies under pictures, in one piece or in strips; runs inside the sandbox."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pypdfium2.raw as pdfium

CELLS = 20
"""The page is judged in so many rows and columns."""

MOST_PICTURES = 5_000
"""Pictures that are looked at: a page has one, or some hundred strips."""

DEEPEST_FORM = 4


def covered_by_pictures(page: Any) -> float:
    """The share of the page's cells whose middle lies under a picture."""
    left, bottom, right, top = page.get_cropbox()
    width, height = (right - left) / CELLS, (top - bottom) / CELLS
    free = {
        (left + (x + 0.5) * width, bottom + (y + 0.5) * height) for x in range(CELLS) for y in range(CELLS)
    }
    pictures = page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_IMAGE], max_depth=DEEPEST_FORM)
    for picture in islice(pictures, MOST_PICTURES):
        x0, y0, x1, y1 = picture.get_bounds()
        free = {(x, y) for x, y in free if not (x0 <= x <= x1 and y0 <= y <= y1)}
        if not free:
            break
    return 1 - len(free) / CELLS**2


def has_pictures(page: Any) -> bool:
    """Whether it, or a form on it, has one: thousands of lines of a figure are passed over quickly."""
    return _has_picture(page.raw, pdfium.FPDFPage_CountObjects, pdfium.FPDFPage_GetObject, DEEPEST_FORM)


def _has_picture(holder: Any, count: Any, get: Any, depth: int) -> bool:
    for number in range(count(holder)):
        kind = pdfium.FPDFPageObj_GetType(drawn := get(holder, number))
        if kind == pdfium.FPDF_PAGEOBJ_IMAGE:
            return True
        if kind == pdfium.FPDF_PAGEOBJ_FORM and depth > 1 and _has_picture(
            drawn, pdfium.FPDFFormObj_CountObjects, pdfium.FPDFFormObj_GetObject, depth - 1
        ):  # fmt: skip
            return True
    return False
