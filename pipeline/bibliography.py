"""Documents, and what they cite, as files for programs that manage literature: read a few at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from django.db.models import QuerySet

from pipeline import files, storage
from pipeline.models import Document
from pipeline.paper_metadata import fields_of
from pipeline.steps.bibliography.bibtex import bibtex
from pipeline.steps.bibliography.citation_keys import CitationKeys
from pipeline.steps.bibliography.csl_json import csl_json
from pipeline.steps.bibliography.entry import Entry, of_paper, of_reference
from pipeline.steps.bibliography.ocr_corpus import corpus_line
from pipeline.steps.bibliography.ris import ris
from pipeline.steps.http.shown import shown

ROWS_PER_QUERY = 200
"""Documents read by one query."""

MAX_REFERENCES = 100_000
"""References that are read of one document: a crafted one has more."""


class Format(NamedTuple):
    """`entry` writes one entry; `None`: the texts themselves."""

    label: str
    suffix: str
    content_type: str
    entry: Callable[[Entry], str] | None = None
    begin: str = ""
    between: str = ""
    end: str = ""


FORMATS: Mapping[str, Format] = {
    "bibtex": Format("BibTeX", "bib", "application/x-bibtex; charset=utf-8", bibtex),
    "ris": Format("RIS", "ris", "application/x-research-info-systems; charset=utf-8", ris),
    "csl-json": Format(
        "CSL-JSON",
        "json",
        "application/vnd.citationstyles.csl+json; charset=utf-8",
        csl_json,
        "[\n",
        ",\n",
        "\n]\n",
    ),
    "jsonl": Format("texts (JSON Lines)", "jsonl", "application/jsonl; charset=utf-8"),
}
"""What can be written: bibliographies, and the texts with the spans of their pages."""


def written(
    documents: QuerySet[Document],
    form: str,
    *,
    references: bool = False,
    each: Callable[[Iterator[Document]], Iterator[Document]] = iter,
) -> Iterator[str]:
    """The pieces of a file, for which a few documents are held at a time. `references`: what the papers cite,
    too. `each` wraps the documents, to show progress. Raises `StepFailed` if the storage does not answer."""
    made = FORMATS[form]
    rows = each(in_batches(documents))
    if made.entry is None:
        yield from (_text_of(document, references=references) for document in rows)
        return
    yield made.begin
    for number, entry in enumerate(entries(rows, references=references)):
        yield (made.between if number else "") + made.entry(entry)
    yield made.end


def in_batches(documents: QuerySet[Document]) -> Iterator[Document]:
    """The documents, oldest first, some at a time: no connection is held and no list made of all of them."""
    after = 0
    while rows := list(documents.filter(pk__gt=after).order_by("pk")[:ROWS_PER_QUERY]):
        after = rows[-1].pk
        yield from rows


def entries(documents: Iterator[Document], *, references: bool) -> Iterator[Entry]:
    """The entry of each document, and of what it cites behind it."""
    keys = CitationKeys()
    for document in documents:
        fields = fields_of(document)
        known = {name: field.chosen.value for name, field in fields.items()}
        key = keys.key(known.get("authors") or (), known.get("title") or "", known.get("year"))
        yield of_paper(key, fields, shown(document.pdf_url) if document.pdf_url else "")
        for record in cited_by(document) if references else ():
            yield _cited(record, keys)


def _cited(record: Mapping[str, Any], keys: CitationKeys) -> Entry:
    entry = of_reference("", record)
    names = [f"{name.family}, {name.given}" for name in entry.authors[:1]]
    return replace(entry, key=keys.key(names, entry.title, entry.year))


def cited_by(document: Document) -> Iterator[dict[str, Any]]:
    """The stored references of a document; none if it has none."""
    yield from islice(_records(document.references_file), MAX_REFERENCES)


def _records(file: Any) -> Iterator[dict[str, Any]]:
    if not files.exists(file):
        return
    with storage.opened(file.name) as lines:
        for line in lines:
            yield json.loads(line)


def _text_of(document: Document, *, references: bool) -> str:
    """The line of a document; "" while it has not been read."""
    pages = [(int(page["number"]), str(page["text"])) for page in _records(document.pages_file)]
    if not pages:
        return ""
    stated = {name: field.chosen.value for name, field in fields_of(document).items()}
    metadata = {
        **{name: value for name, value in stated.items() if name != "abstract"},
        "Source-File": document.source_shown,
        "pdf-total-pages": document.pages,
        "pages-by": document.pages_by,
        "sha256": document.sha256,
        "licence": document.licence,
        "problem": document.problem,
    }
    if references:
        metadata["references"] = list(cited_by(document))
    added = document.added_at.date().isoformat()
    return corpus_line(document.key, pages, added, added, metadata)
