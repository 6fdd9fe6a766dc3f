"""Text of each page, by pypdf; runs inside the sandbox (see `pdf_child.py`), never in a worker.

Nothing of Sluicegate is imported here: the child starts in 0.2 s because it loads pypdf alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from pypdf import PasswordType, PdfReader
from pypdf.errors import DependencyError, FileNotDecryptedError

Line = dict[str, Any]

logging.disable(logging.CRITICAL)  # pypdf logs what it finds in the document; nobody may read it

UNMAPPED_SHARE = 0.5
"""A page with more letters than this share in fonts that name no letters is mojibake, not text."""


def lines(order: Mapping[str, Any]) -> Iterator[Line]:
    """The number of pages, then per page `page`, `text`, `unmapped`, and `error` or `cut` if so.

    One line `refused` (`encrypted`, `needs_crypto`, `damaged`) when there is nothing to read.
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
    yield from page_lines(reader, wanted(order, count), int(order["max_chars"]))


def opened(path: str) -> PdfReader:
    """The document, with the empty password tried: many files ask for none but that one."""
    reader = PdfReader(path, strict=False)
    if reader.is_encrypted and reader.decrypt("") == PasswordType.NOT_DECRYPTED:
        raise FileNotDecryptedError
    return reader


def verdict(error: Exception) -> str:
    if isinstance(error, FileNotDecryptedError):
        return "encrypted"
    return "needs_crypto" if isinstance(error, DependencyError) else "damaged"


def wanted(order: Mapping[str, Any], count: int) -> list[int]:
    """The pages asked for (from 1) that exist; None asks for all, up to `max_pages`."""
    if order["pages"] is None:
        return list(range(1, min(count, int(order["max_pages"])) + 1))
    return [page for page in order["pages"] if 1 <= page <= count]


def page_lines(reader: PdfReader, pages: list[int], room: int) -> Iterator[Line]:
    """A line per page until `room` characters are used up; the rest then comes empty and `cut`."""
    for number in pages:
        line: Line = read(reader, number) if room > 0 else {"text": "", "cut": True}
        if len(line["text"]) > room:
            line |= {"text": line["text"][:room], "cut": True}
        room -= len(line["text"])
        yield {"page": number, **line}


def read(reader: PdfReader, number: int) -> Line:
    """One page's text; what pypdf raises over it is a fact about the page, not the end."""
    letters = LetterCount()
    try:
        text = reader.pages[number - 1].extract_text(visitor_text=letters.see)
    except MemoryError:
        raise
    except Exception as error:
        return {"text": "", "error": type(error).__name__}
    return {"text": text, "unmapped": letters.mostly_unmapped}


class LetterCount:
    """Counts letters drawn in fonts that do not say which letters their codes stand for.

    Type0 fonts with an Identity encoding and no ToUnicode: pypdf takes glyph numbers for code
    points, and Japanese comes out as other letters, silently.
    """

    def __init__(self) -> None:
        self.all = 0
        self.unmapped = 0

    def see(self, text: str, _cm: object, _tm: object, font: Any, _size: object) -> None:
        letters = sum(map(str.isalpha, text))
        self.all += letters
        if letters and font is not None and is_unmapped(font):
            self.unmapped += letters

    @property
    def mostly_unmapped(self) -> bool:
        return self.unmapped > UNMAPPED_SHARE * self.all


def is_unmapped(font: Mapping[str, Any]) -> bool:
    identity = str(font.get("/Encoding", "")).startswith("/Identity")
    return font.get("/Subtype") == "/Type0" and identity and "/ToUnicode" not in font
