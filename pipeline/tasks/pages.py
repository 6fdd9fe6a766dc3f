"""The pages of a document as files: one JSON line each, and all of them as one text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from pipeline import files
from pipeline.models import Document
from pipeline.steps.extract import PageText, letters, with_page_marks
from pipeline.steps.references import find_references
from pipeline.tasks.documents import done
from queuemgr.errors import StepFailed
from queuemgr.leased_task import Work
from queuemgr.outcomes import Done


def pages_done(
    work: Work,
    document: Document,
    pages: Iterable[PageText],
    context: dict[str, Any],
    columns: dict[str, Any],
) -> Done:
    """Store the pages read so far, their text as one, and what follows from it."""
    pages = list(pages)
    bare = context.get("pages_without_text")
    if not has_text(pages) and not bare:
        raise StepFailed("no_text", columns.get("problem") or "No page of it has any text.")
    stem, text = document.file_stem, with_page_marks(pages)
    found = find_references(text)
    as_lines = "".join(json.dumps(_as_plain(page), ensure_ascii=False) + "\n" for page in pages)
    return done(
        document,
        context,
        pages_file=files.promote_text(work, as_lines, f"pages/{stem}.jsonl"),
        text=files.promote_text(work, text, f"text/{stem}.txt"),
        pages_by=dict(Counter(page.source for page in pages)),
        references=found.count,
        references_style=found.style[:40],
        **columns,
    )


def read_pages(document: Document) -> list[PageText]:
    """The pages read so far, from their file."""
    with document.pages_file.open("rb") as lines:
        return [PageText(**json.loads(line)) for line in lines.read().decode().split("\n") if line]


def has_text(pages: Iterable[PageText]) -> bool:
    """Has any page a letter?"""
    return any(letters(page.text) for page in pages)


def _as_plain(page: PageText) -> dict[str, Any]:
    return asdict(page)
