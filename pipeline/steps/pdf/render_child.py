"""Pages drawn on demand, as pictures for a model or a program; runs inside the sandbox.

PDFium is not thread-safe at all (pypdfium2#303, pypdfium2#479: wrong text, not only crashes), so it
lives in a process of its own. A line `{"page": 3, "turn": 0}` on the pipe of demands is answered by
a line on standard output, and the picture's bytes on the pipe of pictures. Nothing is drawn that
was not asked for.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import pypdfium2 as pdfium
from PIL import Image

Line = dict[str, Any]

INK_DPI = 40
INK_SHARE = 0.001
"""A page with no more non-white pixels than this at 40 dpi is blank; asked anyway, a model invents
text (allenai/olmocr#292)."""

WHITE = 250
"""Grey levels from here up count as paper: JPEG noise is not ink."""

MOST_POINTS = 14_400.0
"""The largest page PDF allows without a unit; bounds the bitmap of the ink check."""

HIGHEST_DPI = 300

LOSSLESS_BYTES = 250 << 10
"""A lossless picture above this is a scan or a photograph, which lossy WebP halves."""

TURNS = {
    1: Image.Transpose.ROTATE_90,
    2: Image.Transpose.ROTATE_180,
    3: Image.Transpose.ROTATE_270,
}
"""By quarters, counter-clockwise."""


def lines(order: Mapping[str, Any]) -> Iterator[Line]:
    """The number of pages, then per demand `page`, and `size`, `blank` or `error` and `stage`."""
    try:
        document = pdfium.PdfDocument(order["pdf"])
    except pdfium.PdfiumError as error:
        refused = "encrypted" if "password" in str(error).lower() else "damaged"
        yield {"refused": refused, "detail": "PdfiumError"}
        return
    yield {"count": len(document)}
    with os.fdopen(order["demands"], "rb") as demands, os.fdopen(order["pictures"], "wb") as out:
        for demand in demands:
            asked = json.loads(demand)
            line, picture = answered(document, order, asked["page"], asked["turn"])
            yield {"page": asked["page"], "turn": asked["turn"], **line}
            out.write(picture)
            out.flush()


def answered(document: Any, order: Mapping[str, Any], number: int, turn: int) -> tuple[Line, bytes]:
    """A line and a picture; what PDFium or Pillow raises over a page is a fact about it."""
    stage = "draw"
    if not 1 <= number <= len(document):
        return {"error": "no such page", "stage": stage}, b""
    try:
        page = document[number - 1]
        try:
            if not has_ink(page):
                return {"blank": True}, b""
            image, has_letters = drawn(page, order), page.get_textpage().count_chars() > 0
        finally:
            page.close()
        stage = "encode"
        picture = ENCODERS[order["format"]](turned(image, turn), has_letters)
    except MemoryError:
        raise
    except Exception as error:
        return {"error": type(error).__name__, "stage": stage}, b""
    return {"size": len(picture)}, picture


def has_ink(page: Any) -> bool:
    scale = INK_DPI / 72 * min(1.0, MOST_POINTS / max(page.get_size()))
    levels = page.render(scale=scale, grayscale=True).to_pil().histogram()
    return bool(sum(levels[:WHITE]) > INK_SHARE * sum(levels))


def drawn(page: Any, order: Mapping[str, Any]) -> Image.Image:
    """The page, its longest side `longest_px` at most: the side is bounded, not the scale, since a
    page may be 200 inches wide and a bitmap of it a gigabyte."""
    longest = max(page.get_size())
    if not 0 < longest < float("inf"):
        raise ValueError("the page has no size")
    scale = min(order["longest_px"] / longest, HIGHEST_DPI / 72)
    image: Image.Image = page.render(scale=scale, grayscale=order["format"] == "pgm").to_pil()
    return image


def turned(image: Image.Image, quarters: int) -> Image.Image:
    return image.transpose(TURNS[quarters]) if quarters else image


def webp(image: Image.Image, has_letters: bool) -> bytes:
    """Lossless for pages of letters, which it keeps sharp and small; else lossy, and so for what
    lossless would make large. Encoding is most of what a page costs, so the fast methods: of dense
    pages of papers the lossless one came out as small as the next, in two thirds of its time."""
    if has_letters:
        sharp = saved(image, "WEBP", lossless=True, method=1, quality=0)
        if len(sharp) <= LOSSLESS_BYTES:
            return sharp
    return saved(image, "WEBP", method=0, quality=80)


def pgm(image: Image.Image, has_letters: bool) -> bytes:
    """Plain grey levels, which every OCR program takes."""
    return saved(image.convert("L"), "PPM")


def saved(image: Image.Image, form: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


ENCODERS = {"webp": webp, "pgm": pgm}
