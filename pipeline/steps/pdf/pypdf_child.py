"""Text of pages by pypdf, where PDFium does not do; runs inside the sandbox (`child.py`), never in a worker.

Only small modules are imported besides pypdf, so that the child starts in 0.2 s.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from pypdf import PasswordType, PdfReader
from pypdf.errors import DependencyError, FileNotDecryptedError, LimitReachedError

from pipeline.steps.extract.clean_text import clean
from pipeline.steps.extract.legibility import problem_with
from pipeline.steps.metadata.embedded_names import INFO, MAX_VALUE, MAX_XMP
from pipeline.steps.metadata.xmp import xmp_entries
from pipeline.steps.pdf.column_order import DrawnLines
from pipeline.steps.pdf.page_errors import errors_of_page
from pipeline.steps.pdf.wanted_pages import wanted_pages

Line = dict[str, Any]

logging.disable(logging.CRITICAL)  # pypdf logs content of the document

LOST_SHARE = 0.5
"""With more than this share of text in fonts without a character map, a page is unreadable."""

COLLECTIONS = ("Japan1", "Japan2", "GB1", "CNS1", "Korea1", "KR")
"""Adobe's character collections; their tables map glyph numbers to characters."""


def lines(job: Mapping[str, Any]) -> Iterator[Line]:
    """The number of pages, then per page `page`, `text`, `fonts`, and `error` or `cut` if they apply.

    `fonts`: "" if there is no problem, `collection` if some need Adobe's tables, which pypdf lacks,
    `nameless` if most have no character map. At last
    `info`, the document's own metadata. A single line `refused` (`encrypted`, `needs_crypto`,
    `limit`, `damaged`) if the document cannot be opened.
    """
    try:
        reader = opened(job["pdf"])
        count = len(reader.pages)
    except MemoryError:
        raise
    except Exception as error:  # on 2,335 files also TypeError, ValueError and others occurred
        yield {"refused": verdict(error), "detail": type(error).__name__}
        return
    yield {"count": count}
    yield from page_lines(reader, job, wanted_pages(job, count))
    yield {"info": info_of(reader)}


def opened(path: str) -> PdfReader:
    """The document, opened with the empty password, which is the right one for many files."""
    reader = PdfReader(path, strict=False)
    if reader.is_encrypted and reader.decrypt("") == PasswordType.NOT_DECRYPTED:
        raise FileNotDecryptedError
    return reader


def info_in(path: str) -> dict[str, str]:
    """The metadata of the document at this path; none if it cannot be opened."""
    try:
        return info_of(opened(path))
    except MemoryError:
        raise
    except Exception:  # of any kind, as above; another engine has read the pages
        return {}


def info_of(reader: PdfReader) -> dict[str, str]:
    """The document's own metadata, its information dictionary before its XMP; what fails is left out."""
    found: dict[str, str] = {}
    for read_one in (xmp_of, dictionary_of):
        try:
            found |= read_one(reader)
        except MemoryError:
            raise
        except Exception:  # noqa: S112 - of a damaged file, whatever it is; its pages have been read
            continue
    return found


def dictionary_of(reader: PdfReader) -> dict[str, str]:
    entries = {str(name)[1:].lower(): value for name, value in (reader.metadata or {}).items()}
    texts = {name: str(entries[name])[:MAX_VALUE] for name in INFO if name in entries}
    return {name: clean(text).text for name, text in texts.items() if text.strip("\0 ")}


def xmp_of(reader: PdfReader) -> dict[str, str]:
    stream: Any = reader.root_object.get("/Metadata")
    if stream is None:
        return {}
    data: bytes = stream.get_object().get_data()
    entries = xmp_entries(data[:MAX_XMP].decode("utf-8", "replace"))
    return {name: clean(text).text for name, text in entries.items()}


def verdict(error: Exception) -> str:
    if isinstance(error, FileNotDecryptedError):
        return "encrypted"
    if isinstance(error, DependencyError):
        return "needs_crypto"
    return "limit" if isinstance(error, LimitReachedError) else "damaged"


def page_lines(reader: PdfReader, job: Mapping[str, Any], pages: list[int]) -> Iterator[Line]:
    """A line per page until `max_chars` are used up; the remaining pages are empty and `cut`."""
    room = int(job["max_chars"])
    for number in pages:
        line: Line = read(reader, number) if room > 0 else {"text": "", "cut": True}
        most = min(room, int(job["max_page_chars"]))
        if len(line["text"]) > most:
            line |= {"text": line["text"][:most], "cut": True}
        room -= len(line["text"])
        yield {"page": number, **line, "problem": problem_with(clean(line["text"]).text)}


def read(reader: PdfReader, number: int) -> Line:
    """One page's text; an exception of pypdf concerns this page only."""
    fonts, drawn, line = FontCount(), DrawnLines(), {"text": ""}

    def see(text: str, cm: Any, tm: Any, font: Any, size: object) -> None:
        fonts.see(text, cm, tm, font, size)
        drawn.see(text, cm, tm)

    with errors_of_page(line):
        page = reader.pages[number - 1]
        text = page.extract_text(visitor_text=see)
        line |= {"text": text, "fonts": fonts.verdict}
        if not page.rotation:
            left, width = float(page.mediabox.left), float(page.mediabox.width)
            line["text"] = drawn.in_order(text, left, width)
    return line


class FontCount:
    """Counts characters in fonts that do not map their codes to characters.

    For composite fonts without a ToUnicode map pypdf silently takes glyph numbers for code points,
    which turns Japanese into other characters.
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
    """Whether its glyph numbers are those of an Adobe collection."""
    try:
        system = font["/DescendantFonts"][0].get_object()["/CIDSystemInfo"].get_object()
        return str(system["/Ordering"]) in COLLECTIONS
    except (KeyError, IndexError, TypeError, AttributeError):
        return False
