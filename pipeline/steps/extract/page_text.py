"""One page as it was read, and pages as one text. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class PageText:
    """One page, numbered from 1.

    `source` names what read it: `pypdf`, `pdfium`, `ocr`; `blank` has no ink, `failed` could not
    be read. `reason` says why not the engine before it, or why nothing was read; "" when the first
    engine did well. `cleaned` counts characters that were removed or replaced.
    """

    number: int
    text: str
    source: str
    reason: str = ""
    cleaned: int = 0


def with_page_marks(pages: Iterable[PageText]) -> str:
    """The pages as one text, a line `[PAGE n]` before each."""
    return "\n".join(f"[PAGE {page.number}]\n{page.text}" for page in pages)
