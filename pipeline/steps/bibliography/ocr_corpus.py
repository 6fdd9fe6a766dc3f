"""Texts with the spans of their pages as JSON Lines, in the form of OCR corpora (Dolma, olmOCR). Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

SOURCE = "sluicegate"


def corpus_line(
    name: str, pages: Iterable[tuple[int, str]], added: str, created: str, metadata: Mapping[str, Any]
) -> str:
    """One document: `text`, and in `attributes.pdf_page_numbers` the span and the number of each page.
    The pages' texts are joined by a line end, which belongs to the page before it."""
    texts: list[str] = []
    spans: list[list[int]] = []
    position = 0
    for number, text in pages:
        if texts:
            texts[-1] += "\n"
            spans[-1][1] += 1
            position += 1
        texts.append(text)
        spans.append([position, position + len(text), number])
        position += len(text)
    record = {
        "id": name,
        "text": "".join(texts),
        "source": SOURCE,
        "added": added,
        "created": created,
        "metadata": dict(metadata),
        "attributes": {"pdf_page_numbers": spans},
    }
    return json.dumps(record, ensure_ascii=False) + "\n"
