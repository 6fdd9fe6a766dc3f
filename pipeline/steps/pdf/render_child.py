"""Pages rendered on request, as pictures for a model or a program; runs inside the sandbox.

PDFium is not thread-safe (pypdfium2#303, pypdfium2#479: wrong text, not only crashes), so it has a
process of its own. A line `{"page": 3, "quarters": 0}` on the pipe of requests is answered by a line on
standard output, and the picture's bytes on the pipe of pictures.
"""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from PIL import Image

from pipeline.steps.pdf.page_errors import errors_of_page, page_of
from pipeline.steps.pdf.passed_picture import PassedPicture, PassedPictures
from pipeline.steps.pdf.pdfium_document import open_document, reduced, shows_ink

Line = dict[str, Any]

HIGHEST_DPI = 300

SHARP, GOOD = 90, 80
"""JPEG's quality for pages with letters, and for scans, whose noise is not worth more. Drawing takes five
milliseconds a page; as WebP it was forty."""

ROTATIONS = {1: Image.Transpose.ROTATE_90, 2: Image.Transpose.ROTATE_180, 3: Image.Transpose.ROTATE_270}
"""By quarter turns, counter-clockwise."""


def lines(job: Mapping[str, Any]) -> Iterator[Line]:
    """The number of pages, then per request `page`, the `seconds` it took, and `size`, `blank`, or `error`
    and `stage`."""
    document, opened = open_document(job["pdf"])
    yield opened
    if document is None:
        return
    pictures = PassedPictures(job["pdf"], int(job["longest_px"]), job["passes"])
    with os.fdopen(job["requests"], "rb") as requests, os.fdopen(job["pictures"], "wb") as out:
        for request in requests:
            wanted = json.loads(request)
            began = time.thread_time()
            line, picture = rendered(document, job, pictures, wanted["page"], wanted["quarters"])
            yield {**wanted, **line, "seconds": time.thread_time() - began}
            out.write(picture)
            out.flush()


def rendered(
    document: Any, job: Mapping[str, Any], pictures: PassedPictures, number: int, quarters: int
) -> tuple[Line, bytes]:
    """A line and a picture; an exception of PDFium or Pillow concerns this page only."""
    failed: Line = {"stage": "render"}
    with errors_of_page(failed):
        with closing(page_of(document, number)) as page:
            if not quarters and (passed := pictures.of(page, number)):
                return passed_on(passed)
            image, has_letters = page_image(page, job), page.get_textpage().count_chars() > 0
            if not shows_ink(reduced(image, max(page.get_size()))):
                return {"blank": True}, b""
        failed["stage"] = "encode"
        picture = ENCODERS[job["format"]](rotated(image, quarters), has_letters)
        return {"size": len(picture)}, picture
    return failed, b""


def passed_on(picture: PassedPicture) -> tuple[Line, bytes]:
    if not shows_ink(picture.small):
        return {"blank": True}, b""
    return {"size": len(picture.data)}, picture.data


def page_image(page: Any, job: Mapping[str, Any]) -> Image.Image:
    """The page, its longest side at most `longest_px`. The side is bounded, not the scale, since a page
    may be 200 inches wide and its bitmap a gigabyte."""
    longest = max(page.get_size())
    if not 0 < longest < float("inf"):
        raise ValueError("the page has no size")
    scale = min(job["longest_px"] / longest, HIGHEST_DPI / 72)
    image: Image.Image = page.render(scale=scale, grayscale=job["format"] == "pgm").to_pil()
    return image


def rotated(image: Image.Image, quarters: int) -> Image.Image:
    return image.transpose(ROTATIONS[quarters]) if quarters else image


def jpeg(image: Image.Image, has_letters: bool) -> bytes:
    return encoded(image.convert("RGB"), "JPEG", quality=SHARP if has_letters else GOOD)


def pgm(image: Image.Image, has_letters: bool) -> bytes:
    """Plain grey levels, which every OCR program reads."""
    return encoded(image.convert("L"), "PPM")


def encoded(image: Image.Image, form: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


ENCODERS = {"jpeg": jpeg, "pgm": pgm}
