"""Text of each page by PDFium, if pypdf found none; runs inside the sandbox (`child.py`).

PDFium is C++ and crashes on some crafted files: it must never be loaded in a worker. Only small modules
are imported here, so that the child starts in 0.1 s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pypdfium2 as pdfium

from pipeline.steps.extract.clean_text import clean
from pipeline.steps.extract.legibility import problem_with
from pipeline.steps.metadata.embedded_names import INFO, MAX_VALUE
from pipeline.steps.pdf.pdfium_document import open_document
from pipeline.steps.pdf.picture_coverage import covered_by_pictures
from pipeline.steps.pdf.wanted_pages import wanted_pages

Line = dict[str, Any]


def lines(job: Mapping[str, Any]) -> Iterator[Line]:
    """The number of pages, then per page `page`, `text`, `covered` (the share of it under pictures), and
    `error` or `cut` if they apply, and `info`.

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
    """The document's own metadata."""
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
        total = text_page.count_chars()
        text = text_page.get_text_range(0, min(total, room)) if total > 0 else ""
        text_page.close()
        line: Line = {"text": text, "covered": covered_by_pictures(page)}
        page.close()
    except pdfium.PdfiumError as error:
        return {"text": "", "error": type(error).__name__}
    return {**line, "cut": True} if total > room else line
