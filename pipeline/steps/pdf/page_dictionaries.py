"""What the file itself says of a page that draws one picture, by pypdf; runs inside the sandbox."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

CHANGING = frozenset({"/SMask", "/Mask", "/Decode", "/ImageMask", "/SMaskInData", "/Matte"})
"""Entries of a picture by which its pixels are not those of the page."""

HARMLESS = frozenset(
    {"/Type", "/Subtype", "/Width", "/Height", "/BitsPerComponent", "/ColorSpace", "/Filter", "/Length",
     "/Name", "/Interpolate", "/Intent"}
)  # fmt: skip
"""Entries of a picture that change none of its pixels."""

MOST_BYTES = 500
"""Of the content of a page that draws one picture and nothing else."""

PLAIN_CONTENT = re.compile(
    rb"\s{0,9}(?:q\s{1,9})?(?:(?:[-+.\d]{1,20}\s{1,9}){6}cm\s{1,9}){1,4}/[^\s/<>\[\](){}%]{1,100}\s{1,9}Do(?:\s{1,9}Q)?\s{0,9}"
)
"""It places the picture and draws it: no clipping, no state of graphics, no layer."""

MODES: Mapping[str, str] = {
    "/DeviceGray": "L", "/CalGray": "L", "/ICCBased1": "L",
    "/DeviceRGB": "RGB", "/CalRGB": "RGB", "/ICCBased3": "RGB",
}  # fmt: skip
"""Pillow's mode of a JPEG whose pixels are shown as they are, by the colour space of the picture."""


class Described(NamedTuple):
    """The picture of a page. `unchanged`: nothing is known to be between its pixels and those of the page;
    `plain_mode`: the mode of a JPEG that is the page, for certain; else ""."""

    unchanged: bool
    plain_mode: str = ""


class PageDictionaries:
    """The pages of a file, which is opened for the first page that is asked for."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._reader: Any = None

    def picture_of(self, number: int) -> Described:
        """What is said of the only picture of this page."""
        try:
            if self._reader is None:
                from pypdf import PdfReader

                self._reader = PdfReader(self._path)
            return described(self._reader.pages[number - 1])
        except MemoryError:
            raise
        except Exception:  # of any kind, over a damaged file
            return Described(False)
        finally:
            if self._reader is not None:
                self._reader.resolved_objects.clear()  # pypdf keeps each picture that it has read


def described(page: Any) -> Described:
    resources = page["/Resources"].get_object()
    (picture,) = (each.get_object() for each in resources["/XObject"].get_object().values())
    if picture["/Subtype"] != "/Image" or CHANGING.intersection(picture) or has_notes(page):
        return Described(False)
    is_plain = HARMLESS.issuperset(picture) and draws_plainly(page, resources)
    return Described(True, plain_mode(picture) if is_plain else "")


def has_notes(page: Any) -> bool:
    """Whether anything but links is laid over it: a text, a stamp, a field of a form."""
    annotations = page["/Annots"].get_object() if "/Annots" in page else ()
    return any(each.get_object().get("/Subtype") != "/Link" for each in annotations or ())


def draws_plainly(page: Any, resources: Any) -> bool:
    """Whether its content only places the picture, and nothing is laid over it or changes its colours."""
    if "/Annots" in page or any(
        str(name).startswith("/Default") for name in resources.get("/ColorSpace", {})
    ):
        return False
    content = page["/Contents"].get_object()
    if isinstance(content, list) or len(content._data) > MOST_BYTES:  # as it is packed
        return False
    return PLAIN_CONTENT.fullmatch(content.get_data()) is not None


def plain_mode(picture: Any) -> str:
    """The mode of the JPEG, if it is one."""
    filters, colours = picture.get("/Filter"), picture.get("/ColorSpace")
    if filters not in ("/DCTDecode", ["/DCTDecode"]):
        return ""
    if isinstance(colours, list):
        components = colours[1].get_object().get("/N") if colours[0] == "/ICCBased" else ""
        return MODES.get(f"{colours[0]}{components}", "")
    return MODES.get(str(colours), "")
