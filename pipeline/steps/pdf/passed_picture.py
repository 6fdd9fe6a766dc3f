"""A page that is one picture, to be passed on as it is in the file; runs inside the sandbox.

Drawing it again costs time and sharpness. But a page may turn, crop, mask or invert its picture: so what
would be passed on is compared with the page as it is drawn, in small, and drawn instead where they differ.
"""

from __future__ import annotations

import io
from collections.abc import Collection
from itertools import islice
from typing import Any

from PIL import Image, ImageChops
from pypdfium2 import raw

MOST_TIMES_LONGEST = 1.5
"""Longest side of a picture that is passed on, in those of a drawn page: a model pays for each pixel."""

MOST_BYTES = 2 << 20

UPRIGHT = 0.02
"""How far the picture may reach over the page or stay within it, and slope, as a share of its size."""

MOST_DIFFERENT = 0.35
"""Of the ink of both, how much may differ by the noise of scaling."""

BLOCK = 5
"""Small pixels on a side whose mean is compared: thin lines are scaled differently."""

CHANGING = frozenset({"/SMask", "/Mask", "/Decode", "/ImageMask", "/SMaskInData", "/Matte"})
"""Entries of a picture by which its pixels are not those of the page."""

ORIENTATION = 274
"""EXIF's tag of how a camera was held; PDF knows nothing of it, and readers of JPEG turn the picture."""

LOSSLESS = frozenset({"CCITTFaxDecode", "JBIG2Decode"})


class PassedPictures:
    """The pictures of a document that are its pages. What PDFium does not say of one, pypdf does, which is
    loaded for the first page that may be passed on."""

    def __init__(self, path: str, longest_px: int, formats: Collection[str]) -> None:
        self._path, self._longest, self._formats = path, MOST_TIMES_LONGEST * longest_px, formats
        self._reader: Any = None

    def of(self, page: Any, number: int, small: Image.Image) -> bytes | None:
        """The picture that is this page, as a JPEG or a PNG; None if it is to be drawn. `small`: the page as
        it is drawn, in grey."""
        if not self._formats or page.get_rotation():
            return None
        drawn = list(islice(page.get_objects(max_depth=1), 2))
        if len(drawn) != 1 or drawn[0].type != raw.FPDF_PAGEOBJ_IMAGE or not is_the_page(drawn[0], page):
            return None
        size = drawn[0].get_px_size()
        if max(size) > self._longest or not self._is_plain(number):
            return None
        found = encoded(drawn[0], self._formats)
        return found if found and len(found) <= MOST_BYTES and looks_like(found, small, size) else None

    def _is_plain(self, number: int) -> bool:
        """Whether nothing is between the pixels of the file and those of the page."""
        try:
            if self._reader is None:
                from pypdf import PdfReader

                self._reader = PdfReader(self._path)
            resources = self._reader.pages[number - 1]["/Resources"].get_object()
            (picture,) = resources["/XObject"].get_object().values()
            described = picture.get_object()
            return described["/Subtype"] == "/Image" and not CHANGING.intersection(described)
        except MemoryError:
            raise
        except Exception:  # of any kind, over a damaged file
            return False
        finally:
            if self._reader is not None:
                self._reader.resolved_objects.clear()  # pypdf keeps each picture that it has read


def is_the_page(picture: Any, page: Any) -> bool:
    """Whether it covers the page, neither turned nor cropped."""
    a, b, c, d, *_ = picture.get_matrix().get()
    if a <= 0 or d <= 0 or abs(b) > UPRIGHT * a or abs(c) > UPRIGHT * d:
        return False
    left, bottom, right, top = page.get_bbox()
    most = UPRIGHT * max(right - left, top - bottom)
    edges = zip(picture.get_bounds(), (left, bottom, right, top), strict=True)
    return all(abs(its - pages) <= most for its, pages in edges)


def encoded(picture: Any, formats: Collection[str]) -> bytes | None:
    filters = picture.get_filters()
    if filters == ["DCTDecode"] and "jpeg" in formats:
        return bytes(picture.get_data(decode_simple=False))
    if len(filters) == 1 and filters[0] in LOSSLESS and "png" in formats:
        out = io.BytesIO()
        picture.get_bitmap().to_pil().convert("1", dither=Image.Dither.NONE).save(out, "PNG")
        return out.getvalue()
    return None


def looks_like(found: bytes, small: Image.Image, size: tuple[int, int]) -> bool:
    with Image.open(io.BytesIO(found), formats=("JPEG", "PNG")) as picture:
        if picture.mode not in ("L", "RGB", "1") or picture.size != size:
            return False
        if picture.getexif().get(ORIENTATION, 1) != 1:
            return False
        picture.draft("L", small.size)
        other = picture.convert("L").resize(small.size, Image.Resampling.BOX)
    one, other = small.reduce(BLOCK), other.reduce(BLOCK)
    differs = total(ImageChops.difference(one, other))
    return differs <= MOST_DIFFERENT * (total(ImageChops.invert(one)) + total(ImageChops.invert(other))) / 2


def total(image: Image.Image) -> int:
    """The sum of its grey levels."""
    return sum(level * count for level, count in enumerate(image.histogram()))
