"""Text of each page by PDFium, and the document's own metadata; runs inside the sandbox (`child.py`).

PDFium is C++ and crashes on some crafted files: it must never be loaded in a worker.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

import pypdfium2 as pdfium
from pypdfium2 import raw

from pipeline.steps.extract.clean_text import clean
from pipeline.steps.extract.doubtful_layers import GOOD_LAYER, layer_quality
from pipeline.steps.extract.legibility import letters, problem_with
from pipeline.steps.metadata.embedded_names import INFO, MAX_VALUE
from pipeline.steps.pdf.column_order import RIGHT_TO_LEFT
from pipeline.steps.pdf.line_places import LinePlaces
from pipeline.steps.pdf.pdfium_document import open_document
from pipeline.steps.pdf.picture_coverage import DEEPEST_FORM, covered_by_pictures
from pipeline.steps.pdf.wanted_pages import wanted_pages

Line = dict[str, Any]

NAMELESS_SHARE = 0.5
"""With more than this share of letters that no map names, PDFium gives the numbers of glyphs instead."""

LETTERS_ASKED, ASKED_FIRST = 200, 8
"""Letters of a page of which it is asked whether a map names them, evenly spread; at first every eighth."""

MUCH_TEXT = 1_000
"""Letters of a legible page from which it is taken for a page of text, whatever of it recurs on others."""

SAMPLE, WELL_READ = 1_000, GOOD_LAYER + 0.1
"""Characters of a page with much text by which its layer is judged, and the share of words from which it is
good: a bad one is bad all over."""

LITTLE = 50
"""A page with fewer characters that draws more pieces of text than that has others, which were not found."""


def lines(job: Mapping[str, Any]) -> Iterator[Line]:
    """The number of pages, then per page `page`, `text`, `covered` (the share of it under pictures, 0 for one
    with much text), `odd` (`turned`, `arabic`, or ""), `draws` (much text, of which little was found), and
    `fonts`, `error` or `cut` if they apply; at last `info`.

    A single line `refused` (`encrypted`, `damaged`) if the document cannot be opened.
    """
    document, opened = open_document(job["pdf"])
    yield opened
    if document is None:
        return
    room = int(job["max_chars"])
    for number in wanted_pages(job, len(document)):
        line = read(document, number, min(room, int(job["max_page_chars"])))
        room -= len(line["text"])
        yield {"page": number, **line, "problem": problem_with(clean(line["text"]).text)}
    yield {"info": info_of(document)}


def info_of(document: Any) -> dict[str, str]:
    """The document's own metadata, but for its XMP, which PDFium does not read (`pdfium_xmp_child.py`)."""
    texts = {name: document.get_metadata_value(KEYS.get(name, name.capitalize())) for name in INFO}
    return {name: clean(text[:MAX_VALUE]).text for name, text in texts.items() if text.strip("\0 ")}


KEYS = {"doi": "doi"}
"""Entries that do not begin with a capital letter."""


def read(document: Any, number: int, room: int) -> Line:
    """One page's text, at most `room` characters; a PDFium error concerns this page only."""
    if room <= 0:
        return {"text": "", "cut": True}
    try:
        page = document[number - 1]
        text_page = page.get_textpage()
        line = text_of(page, text_page, room)
        line["covered"] = covered_by_pictures(page) if may_be_a_scan(line["text"]) else 0.0
        text_page.close()
        page.close()
    except pdfium.PdfiumError as error:
        return {"text": "", "error": type(error).__name__}
    return line


def may_be_a_scan(text: str) -> bool:
    """Whether pictures are to be looked for: it takes as long as to read the page."""
    return letters(text) < MUCH_TEXT or layer_quality(text[len(text) // 3 :][:SAMPLE]) < WELL_READ


def text_of(page: Any, text_page: Any, room: int) -> Line:
    total = text_page.count_chars()
    text = text_page.get_text_range(0, min(total, room)) if total > 0 else ""
    places = LinePlaces(page, text_page, text)
    line: Line = {"text": places.in_order(), "odd": "", "draws": total < LITTLE and draws_more(page, total)}
    if places.are_turned:
        line["odd"] = "turned"
    elif is_arabic(text):
        line["odd"] = "arabic"
    if are_nameless(text_page, total):
        line["fonts"] = "nameless"
    return {**line, "cut": True} if total > room else line


def is_arabic(text: str) -> bool:
    """Whether most of its first letters are written from right to left and joined."""
    if not RIGHT_TO_LEFT.search(text):
        return False
    found = [unicodedata.bidirectional(letter) for letter in text[:2000] if letter.isalpha()]
    return found.count("AL") * 2 > len(found)


def are_nameless(text_page: Any, total: int) -> bool:
    """Asked of some letters first, since few pages have any that no map names."""
    step = 1 + total // LETTERS_ASKED
    if not any(map(partial(is_nameless, text_page), range(0, total, ASKED_FIRST * step))):
        return False
    asked = range(0, total, step)
    return sum(map(partial(is_nameless, text_page), asked)) > NAMELESS_SHARE * len(asked)


def is_nameless(text_page: Any, place: int) -> bool:
    return bool(raw.FPDFText_HasUnicodeMapError(text_page.raw, place) == 1)


def draws_more(page: Any, found: int) -> bool:
    """Whether the page draws more pieces of text than characters were found."""
    pieces = page.get_objects(filter=[raw.FPDF_PAGEOBJ_TEXT], max_depth=DEEPEST_FORM)
    return next(islice(pieces, max(0, found), None), None) is not None
