"""How much of a page lies under pictures, in one piece or in strips; runs inside the sandbox."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from ctypes import byref, c_float
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
    columns, rows = middles(left, right), middles(bottom, top)
    covered = [0] * CELLS  # by row, with a bit for each column
    edges = [c_float() for _ in range(4)]
    for picture in islice(pictures_of(page), MOST_PICTURES):
        if not pdfium.FPDFPageObj_GetBounds(picture, *map(byref, edges)):
            continue
        x0, y0, x1, y1 = (edge.value for edge in edges)
        first, last = bisect_left(columns, x0), bisect_right(columns, x1)
        under = (1 << max(first, last)) - (1 << first)
        for row in range(bisect_left(rows, y0), bisect_right(rows, y1)):
            covered[row] |= under
    return sum(map(int.bit_count, covered)) / CELLS**2


def middles(first: float, last: float) -> list[float]:
    """The middles of the cells between two edges."""
    size = (last - first) / CELLS
    return [first + (number + 0.5) * size for number in range(CELLS)]


def pictures_of(page: Any) -> Iterator[Any]:
    """The pictures on it, and in forms on it: thousands of lines of a figure are passed over quickly."""
    return _pictures(page.raw, pdfium.FPDFPage_CountObjects, pdfium.FPDFPage_GetObject, DEEPEST_FORM)


def _pictures(holder: Any, count: Any, get: Any, depth: int) -> Iterator[Any]:
    kind_of, picture, form = pdfium.FPDFPageObj_GetType, pdfium.FPDF_PAGEOBJ_IMAGE, pdfium.FPDF_PAGEOBJ_FORM
    for number in range(count(holder)):
        kind = kind_of(drawn := get(holder, number))
        if kind == picture:
            yield drawn
        elif kind == form and depth > 1:
            yield from _pictures(
                drawn, pdfium.FPDFFormObj_CountObjects, pdfium.FPDFFormObj_GetObject, depth - 1
            )
