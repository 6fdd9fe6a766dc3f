"""Text of each page, by PDFium, where pypdf gave none; runs inside the sandbox (`child.py`).

PDFium is C++ and answers some crafted files with an abort: it must never be loaded in a worker.
Nothing of Sluicegate is imported here: the child starts in 0.1 s because it loads PDFium alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pypdfium2 as pdfium

Line = dict[str, Any]


def lines(order: Mapping[str, Any]) -> Iterator[Line]:
    """The number of pages, then per page `page`, `text`, and `error` or `cut` if so.

    One line `refused` (`encrypted`, `damaged`) when there is nothing to read.
    """
    try:
        document = pdfium.PdfDocument(order["pdf"])
    except pdfium.PdfiumError as error:
        refused = "encrypted" if "password" in str(error).lower() else "damaged"
        yield {"refused": refused, "detail": type(error).__name__}
        return
    count = len(document)
    yield {"count": count}
    room = int(order["max_chars"])
    for number in wanted(order, count):
        line = read(document, number, min(room, int(order["max_page_chars"])))
        room -= len(line["text"])
        yield {"page": number, **line}


def wanted(order: Mapping[str, Any], count: int) -> list[int]:
    """The pages asked for (from 1) that exist; None asks for all, up to `max_pages`."""
    if order["pages"] is None:
        return list(range(1, min(count, int(order["max_pages"])) + 1))
    return [page for page in order["pages"] if 1 <= page <= count]


def read(document: Any, number: int, room: int) -> Line:
    """One page's text, at most `room` characters; what PDFium says against it is its page's fact."""
    if room <= 0:
        return {"text": "", "cut": True}
    try:
        page = document[number - 1]
        text_page = page.get_textpage()
        total = text_page.count_chars()
        text = text_page.get_text_range(0, min(total, room)) if total > 0 else ""
        text_page.close()
        page.close()
    except pdfium.PdfiumError as error:
        return {"text": "", "error": type(error).__name__}
    return {"text": text, "cut": True} if total > room else {"text": text}
