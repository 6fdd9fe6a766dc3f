"""The pages of a document as files: one JSON line each, and all of them as one text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, fields
from typing import Any

from pipeline import files
from pipeline.models import Document
from pipeline.steps.extract.extract import PageText, letters, with_page_marks
from pipeline.steps.extract.references import References, find_references
from pipeline.tasks.analyse import expected_parts
from pipeline.tasks.documents import done
from queuemgr import Done, StepFailed, Work


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
    if not bare:  # else OCR comes next, and the list may be on its pages
        columns["problem"] = " ".join(filter(None, (columns.get("problem", ""), untold(found))))
    return done(
        document,
        {
            **context,
            **expected_parts(text),
            "characters_cleaned": sum(page.cleaned for page in pages),
        },
        pages_file=files.promote_text(work, as_lines(map(as_plain, pages)), f"pages/{stem}.jsonl"),
        text=files.promote_text(work, text, f"text/{stem}.txt"),
        pages_by=dict(Counter(page.source for page in pages)),
        characters=sum(len(page.text) for page in pages),
        references=found.count,
        references_style=found.style[:40],
        references_file=references_file(work, found, stem),
        **columns,
    )


def references_file(work: Work, found: References, stem: str) -> str:
    """Store the entries of the list, one JSON line each; "" when none could be told apart."""
    if not found.entries:
        return ""
    return files.promote_text(
        work, as_lines(map(asdict, found.entries)), f"references/{stem}.jsonl"
    )


def untold(found: References) -> str:
    """What to say when the list has more entries than could be told apart."""
    missing = (found.count or 0) - len(found.entries)
    if found.section and found.count is None:
        return "The references were found, but could not be told apart."
    return f"{missing} of {found.count} references are in the text of another." * bool(missing)


def read_pages(document: Document) -> list[PageText]:
    """The pages read so far, from their file."""
    known = {field.name for field in fields(PageText)}
    with document.pages_file.open("rb") as stored:
        lines = [json.loads(line) for line in stored.read().decode().split("\n") if line]
    return [PageText(**{name: line[name] for name in line if name in known}) for line in lines]


def has_text(pages: Iterable[PageText]) -> bool:
    """Has any page a letter?"""
    return any(letters(page.text) for page in pages)


def as_plain(page: PageText) -> dict[str, Any]:
    """A page as it is stored: its text, where that came from and why, and how long it is."""
    return asdict(page) | {"characters": len(page.text)}


def as_lines(items: Iterable[dict[str, Any]]) -> str:
    """JSON lines, letters of any script as they are."""
    return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items)
