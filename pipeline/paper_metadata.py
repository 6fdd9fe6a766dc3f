"""The metadata of a document: what its sources state, merged into its columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pipeline.models import Document
from pipeline.steps.metadata.candidates import Candidate, candidate, of_catalogue, read_stored, with_news
from pipeline.steps.metadata.merge import COLUMNS, FieldValue, columns, merged
from pipeline.steps.resolve.sources.answer import Answer

Statements = Mapping[str, Iterable[Candidate]]
"""By source, what it states now instead of what it stated before."""


def fields_of(document: Document) -> dict[str, FieldValue]:
    """The fields of a document with their sources."""
    return merged((*stated_of(document), *given(document)))


def stated_of(document: Document) -> list[Candidate]:
    """What is stored of it. An earlier release stored columns only: a service's, or for a file a guess."""
    if document.metadata:
        return list(read_stored(document.metadata))
    confidence = 0.95 if document.kind in ("doi", "arxiv") else 0.3
    known = ((name, getattr(document, name)) for name in COLUMNS)
    return [c for name, value in known if (c := candidate(name, value, "unknown", confidence))]


def with_statements(document: Document, statements: Statements) -> dict[str, Any]:
    """The columns to store once these sources have been read."""
    news = [each for stated in statements.values() for each in stated]
    metadata = with_news(stated_of(document), statements, news)
    fields = merged((*read_stored(metadata), *given(document)))
    return {"metadata": metadata, **columns(fields)}


def given(document: Document) -> list[Candidate]:
    """The identifier by which a document was asked for is certain; arXiv adds its version."""
    kind, _, name = document.key.partition(":")
    field, confidence = {"doi": ("doi", 1.0), "arxiv": ("arxiv_id", 0.95)}.get(kind, ("", 0.0))
    found = candidate(field, name, "given", confidence) if field else None
    return [found] if found else []


def by_paper(stated: Mapping[str, Iterable[tuple[str, Any, float]]]) -> Statements:
    """What a child process has read of the paper: field, value and confidence by source."""
    return {
        source: [c for field, value, confidence in each if (c := candidate(field, value, source, confidence))]
        for source, each in stated.items()
    }


def by_catalogues(answers: Mapping[str, Answer]) -> Statements:
    """What services answered about it."""
    return {source: of_catalogue(source, answer.paper) for source, answer in answers.items()}


def info_stored(document: Document) -> dict[str, str]:
    """The PDF's own metadata, from what was stored of it."""
    stated = (each for each in read_stored(document.metadata) if each.source == "embedded")
    return {
        {"authors": "author"}.get(each.field, each.field): "; ".join(each.value)
        if isinstance(each.value, list)
        else str(each.value)
        for each in stated
    }
