"""Text of each page, by pypdf; runs inside the sandbox (see `child.py`), never in a worker.

Nothing of Sluicegate is imported here: the child starts in 0.2 s because it loads pypdf alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from pypdf import PasswordType, PdfReader
from pypdf.errors import DependencyError, FileNotDecryptedError, LimitReachedError

Line = dict[str, Any]

logging.disable(logging.CRITICAL)  # pypdf logs what it finds in the document; nobody may read it

LOST_SHARE = 0.5
"""A page with more than this share in fonts nobody can read letters from is mojibake, not text."""

COLLECTIONS = ("Japan1", "Japan2", "GB1", "CNS1", "Korea1", "KR")
"""Adobe's character collections: whoever has their tables knows which letter a glyph number is."""


def lines(order: Mapping[str, Any]) -> Iterator[Line]:
    """The number of pages, then per page `page`, `text`, `fonts`, and `error` or `cut` if so.

    `fonts` says what is wrong with them: "" nothing, `collection` some need Adobe's tables, which
    pypdf has not, `nameless` most do not say which letters they draw. One line `refused`
    (`encrypted`, `needs_crypto`, `limit`, `damaged`) when there is nothing to read.
    """
    try:
        reader = opened(order["pdf"])
        count = len(reader.pages)
    except MemoryError:
        raise
    except Exception as error:  # of 2,335 files TypeError, ValueError and others all occurred
        yield {"refused": verdict(error), "detail": type(error).__name__}
        return
    yield {"count": count}
    yield from page_lines(reader, order, wanted(order, count))


def opened(path: str) -> PdfReader:
    """The document, with the empty password tried: many files ask for none but that one."""
    reader = PdfReader(path, strict=False)
    if reader.is_encrypted and reader.decrypt("") == PasswordType.NOT_DECRYPTED:
        raise FileNotDecryptedError
    return reader


def verdict(error: Exception) -> str:
    if isinstance(error, FileNotDecryptedError):
        return "encrypted"
    if isinstance(error, DependencyError):
        return "needs_crypto"
    return "limit" if isinstance(error, LimitReachedError) else "damaged"


def wanted(order: Mapping[str, Any], count: int) -> list[int]:
    """The pages asked for (from 1) that exist; None asks for all, up to `max_pages`."""
    if order["pages"] is None:
        return list(range(1, min(count, int(order["max_pages"])) + 1))
    return [page for page in order["pages"] if 1 <= page <= count]


def page_lines(reader: PdfReader, order: Mapping[str, Any], pages: list[int]) -> Iterator[Line]:
    """A line per page until `max_chars` are used up; the rest then comes empty and `cut`."""
    room = int(order["max_chars"])
    for number in pages:
        line: Line = read(reader, number) if room > 0 else {"text": "", "cut": True}
        most = min(room, int(order["max_page_chars"]))
        if len(line["text"]) > most:
            line |= {"text": line["text"][:most], "cut": True}
        room -= len(line["text"])
        yield {"page": number, **line}


def read(reader: PdfReader, number: int) -> Line:
    """One page's text; what pypdf raises over it is a fact about the page, not the end."""
    fonts = FontCount()
    try:
        text = reader.pages[number - 1].extract_text(visitor_text=fonts.see)
    except MemoryError:
        raise
    except Exception as error:
        return {"text": "", "error": type(error).__name__}
    return {"text": text, "fonts": fonts.verdict}


class FontCount:
    """Counts characters drawn in fonts that do not say which letters their codes stand for.

    Composite fonts without a ToUnicode map: pypdf takes glyph numbers for code points, and
    Japanese comes out as other letters, silently.
    """

    def __init__(self) -> None:
        self.all = self.nameless = self.by_collection = 0

    def see(self, text: str, _cm: object, _tm: object, font: Any, _size: object) -> None:
        shown = len(text) - sum(map(str.isspace, text))
        self.all += shown
        if shown and font is not None and is_unmapped(font):
            if names_a_collection(font):
                self.by_collection += shown
            else:
                self.nameless += shown

    @property
    def verdict(self) -> str:
        if self.nameless > LOST_SHARE * self.all:
            return "nameless"
        return "collection" if self.by_collection else ""


def is_unmapped(font: Mapping[str, Any]) -> bool:
    named = str(font.get("/Encoding", "")).startswith("/")
    return font.get("/Subtype") == "/Type0" and named and "/ToUnicode" not in font


def names_a_collection(font: Mapping[str, Any]) -> bool:
    """Whether its glyph numbers are those of one of Adobe's collections."""
    try:
        system = font["/DescendantFonts"][0].get_object()["/CIDSystemInfo"].get_object()
        return str(system["/Ordering"]) in COLLECTIONS
    except (KeyError, IndexError, TypeError, AttributeError):
        return False
