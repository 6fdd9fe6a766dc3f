"""A page that is one picture, to be passed on as it is in the file; runs inside the sandbox.

Drawing it again costs time and sharpness. But a page may turn, crop, mask or invert its picture. Where the
file says that it does nothing but place a JPEG, that is passed on; else what would be passed on is compared
with the page as it is drawn, in small, and drawn instead where they differ.
"""

from __future__ import annotations

import io
from collections.abc import Collection
from itertools import islice
from typing import Any, NamedTuple

from PIL import Image, ImageChops
from pypdfium2 import raw

from pipeline.steps.pdf.page_dictionaries import PageDictionaries
from pipeline.steps.pdf.pdfium_document import in_small

MOST_TIMES_LONGEST = 1.5
"""Longest side of a picture that is passed on, in those of a drawn page: a model pays for each pixel."""

MOST_BYTES = 2 << 20

UPRIGHT = 0.02
"""How far the picture may reach over the page or stay within it, and slope, as a share of its size."""

MOST_DIFFERENT = 0.35
"""Of the ink of both, how much may differ by the noise of scaling."""

BLOCK = 5
"""Small pixels on a side whose mean is compared: thin lines are scaled differently."""

ORIENTATION = 274
"""EXIF's tag of how a camera was held; PDF knows nothing of it, and readers of JPEG turn the picture."""

IN_SMALL = 8
"""By how much a JPEG is made smaller to see whether it has ink: its decoder does that on the way."""

LOSSLESS = frozenset({"CCITTFaxDecode", "JBIG2Decode"})


class PassedPicture(NamedTuple):
    """A JPEG or a PNG that is the page, and its grey levels in small."""

    data: bytes
    small: Image.Image


class PassedPictures:
    """The pictures of a document that are its pages."""

    def __init__(self, path: str, longest_px: int, formats: Collection[str]) -> None:
        self._longest, self._formats = MOST_TIMES_LONGEST * longest_px, formats
        self._dictionaries = PageDictionaries(path)

    def of(self, page: Any, number: int) -> PassedPicture | None:
        """The picture that is this page; None if it is to be drawn."""
        if not self._formats or (picture := self._whole(page)) is None:
            return None
        unchanged, mode = self._dictionaries.picture_of(number)
        found = encoded(picture, self._formats) if unchanged else None
        if found is None or len(found) > MOST_BYTES:
            return None
        size = picture.get_px_size()
        if mode and (plain := unpacked(found, mode, size)):
            return plain
        small = in_small(page)
        return PassedPicture(found, small) if looks_like(found, small, size) else None

    def _whole(self, page: Any) -> Any:
        """The only thing on the page, if it is a picture that covers it and is not too large."""
        if page.get_rotation():
            return None
        drawn = list(islice(page.get_objects(max_depth=1), 2))
        if len(drawn) != 1 or drawn[0].type != raw.FPDF_PAGEOBJ_IMAGE or not is_the_page(drawn[0], page):
            return None
        return drawn[0] if max(drawn[0].get_px_size()) <= self._longest else None


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


def unpacked(found: bytes, mode: str, size: tuple[int, int]) -> PassedPicture | None:
    """The JPEG, in grey with an eighth of its size; None if it is of another mode or size, or damaged."""
    try:
        with Image.open(io.BytesIO(found), formats=("JPEG",)) as picture:
            if (picture.mode, picture.size) != (mode, size) or is_turned(picture):
                return None
            picture.draft("L", (max(1, size[0] // IN_SMALL), max(1, size[1] // IN_SMALL)))
            return PassedPicture(found, picture.convert("L"))
    except MemoryError:
        raise
    except Exception:  # of any kind, over a damaged picture or its EXIF
        return None


def is_turned(picture: Image.Image) -> bool:
    return bool(picture.getexif().get(ORIENTATION, 1) != 1)


def looks_like(found: bytes, small: Image.Image, size: tuple[int, int]) -> bool:
    """Whether it can be read, and shows what the page does."""
    try:
        return shows_the_page(found, small, size)
    except MemoryError:
        raise
    except Exception:  # of any kind, over a damaged picture or its EXIF
        return False


def shows_the_page(found: bytes, small: Image.Image, size: tuple[int, int]) -> bool:
    with Image.open(io.BytesIO(found), formats=("JPEG", "PNG")) as picture:
        if picture.mode not in ("L", "RGB", "1") or picture.size != size:
            return False
        if is_turned(picture):
            return False
        picture.draft("L", small.size)
        other = picture.convert("L").resize(small.size, Image.Resampling.BOX)
    one, other = small.reduce(BLOCK), other.reduce(BLOCK)
    differs = total(ImageChops.difference(one, other))
    return differs <= MOST_DIFFERENT * (total(ImageChops.invert(one)) + total(ImageChops.invert(other))) / 2


def total(image: Image.Image) -> int:
    """The sum of its grey levels."""
    return sum(level * count for level, count in enumerate(image.histogram()))
