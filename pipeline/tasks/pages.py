"""The pages of a document as files: one JSON line each, and all of them as one text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from pipeline import files, storage
from pipeline.config import pipeline_settings
from pipeline.models import Document
from pipeline.paper_metadata import by_paper, info_stored, with_statements
from pipeline.printed_lookup import services_to_ask
from pipeline.steps.extract.doubtful_layers import Doubt
from pipeline.steps.extract.extract import PageText, letters, with_page_marks
from pipeline.steps.extract.reference import Reference
from pipeline.steps.extract.references import References
from pipeline.steps.pdf.text_sandbox import read_in_child
from pipeline.tasks.analyse import schema_for, tokens_of_chunks
from pipeline.tasks.documents import done
from pipeline.tasks.text_limits import text_limits
from queuemgr import Done, StepFailed, Work


def pages_done(
    work: Work,
    document: Document,
    pages: Iterable[PageText],
    context: dict[str, Any],
    columns: dict[str, Any],
    info: Mapping[str, str] | None = None,
) -> Done:
    """Store the pages read so far, their combined text, its references, and what the paper says of itself.
    `info`: the PDF's own metadata; None if it was stored before."""
    pages = list(pages)
    bare = context.get("pages_without_text")
    if not has_text(pages) and not bare:
        raise StepFailed("no_text", columns.get("problem") or "No page of it has any text.")
    stem, text = document.file_stem, with_page_marks(pages)
    known = info_stored(document) if info is None else dict(info)
    schema = schema_for(work)
    read = read_in_child(
        "paper", text_limits(), work.signal, text=text, chunk_tokens=tokens_of_chunks(schema), info=known
    )  # fmt: skip
    entries = tuple(map(Reference.of_record, read["found"].pop("entries")))
    found = References(**read["found"], entries=entries)
    counted = {"llm_chunks": read["chunks"], "llm_tokens": read["tokens"]}
    if schema is not None:
        counted["llm_schema_tokens"] = schema.tokens
    chunks = counted if read["chunks"] is not None else {}
    unread = "" if bare else references_problem(found)  # else OCR follows, and the list may be on its pages
    if not bare:
        columns["problem"] = " ".join(filter(None, (columns.get("problem", ""), unread)))
    stated = with_statements(document, by_paper(read["stated"]))
    services = services_to_ask(document, stated) | references_to_look_up(work, found)
    if pipeline_settings().grobid_url:
        services["grobid"] = True
    return done(
        document,
        {**context, **chunks, **services, "characters_cleaned": sum(page.cleaned for page in pages)},
        pages_file=files.promote_text(work, json_lines(map(page_record, pages)), f"pages/{stem}.jsonl"),
        text=files.promote_text(work, text, f"text/{stem}.txt"),
        pages_by=dict(Counter(page.source for page in pages)),
        characters=sum(len(page.text) for page in pages),
        references=found.count,
        references_style=found.style[:40],
        references_by={"method": "read from the print"} | ({"problem": unread} if unread else {}),
        references_file=references_file(work, found, stem),
        **stated,
        **columns,
    )


def references_file(work: Work, found: References, stem: str) -> str:
    """Store the entries of the list, one JSON line each; "" if none could be separated."""
    if not found.entries:
        return ""
    return files.promote_text(work, json_lines(map(asdict, found.entries)), f"references/{stem}.jsonl")


UNLESS_SET = 100
"""References that are looked up where one paper asks for it, and no setting says how many."""


def references_to_look_up(work: Work, found: References) -> dict[str, int]:
    """The context of the step that looks references up: how many it may ask about."""
    most = pipeline_settings().lookup_references
    if work.inputs.get("lookup_references"):
        most = most or UNLESS_SET
    with_doi = sum(bool(each.doi) for each in found.entries)
    return {"references_to_look_up": min(most, with_doi)} if most else {}


def references_problem(found: References) -> str:
    """A sentence about entries that could not be separated; "" if there are none."""
    missing = (found.count or 0) - len(found.entries)
    if found.section and found.count is None:
        return "The references were found, but could not be separated."
    return f"{missing} of {found.count} references are merged with another one." * bool(missing)


def stored_records(file: Any) -> list[dict[str, Any]]:
    """The JSON lines of a stored file; none if there is no file."""
    if not files.exists(file):
        return []
    with storage.opened(file.name) as stored:
        return [json.loads(line) for line in stored.read().decode().split("\n") if line]


def read_pages(document: Document) -> list[PageText]:
    """The pages read so far, from their file."""
    known = {field.name for field in fields(PageText)}
    with storage.opened(document.pages_file.name) as stored:
        lines = [json.loads(line) for line in stored.read().decode().split("\n") if line]
    pages = [PageText(**{name: line[name] for name in line if name in known}) for line in lines]
    return [replace(page, doubt=Doubt(page.doubt)) for page in pages]


def has_text(pages: Iterable[PageText]) -> bool:
    """Whether any page has a letter; a stamp on a scan says nothing of the page."""
    return any(letters(page.text) for page in pages if page.source == "ocr" or page.doubt != Doubt.STAMP)


def page_record(page: PageText) -> dict[str, Any]:
    """A page as it is stored: its text, the engine and its reason, and the length."""
    return asdict(page) | {"characters": len(page.text)}


def json_lines(items: Iterable[dict[str, Any]]) -> str:
    """JSON lines, without escaping letters of other scripts."""
    return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items)
