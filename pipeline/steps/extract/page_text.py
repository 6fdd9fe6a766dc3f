"""The text of one page, and of several pages together. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.steps.extract.doubtful_layers import Doubt


@dataclass(frozen=True)
class PageText:
    """One page, numbered from 1.

    `source`: the engine (`pypdf`, `pdfium`, `ocr`), or `blank` (no ink) or `failed`. `reason`: why an
    earlier engine was not used, or why the page failed; else "". `cleaned`: characters that were
    removed or replaced. `doubt`: why OCR is asked although there is a text layer; "" if it is not.
    """

    number: int
    text: str
    source: str
    reason: str = ""
    cleaned: int = 0
    doubt: Doubt = Doubt.NONE


def with_page_marks(pages: Iterable[PageText]) -> str:
    """The pages as one text, with a line `[PAGE n]` before each."""
    return "\n".join(f"[PAGE {page.number}]\n{page.text}" for page in pages)
