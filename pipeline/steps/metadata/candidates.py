"""A value that a source states for a field of a paper, bounded and cleaned. Pure.

Every value comes from outside: each is cut to what the database holds, on one line, without control
characters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.steps.resolve.sources import json_fields
from pipeline.steps.resolve.sources.answer import Paper

MAX_VENUE = 300
MAX_KEYWORDS = 50
MAX_SHORT = 60
"""Characters of a volume, an issue, a range of pages or an id."""


@dataclass(frozen=True)
class Candidate:
    """What `source` states of a field: text, a year, or a list of names. `confidence`: from 0 to 1."""

    field: str
    value: Any
    source: str
    confidence: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _short(value: Any) -> str:
    return json_fields.line(value, MAX_SHORT)


def _words(value: Any) -> list[str]:
    return list(json_fields.names(value))[:MAX_KEYWORDS]


FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "title": lambda value: json_fields.line(value, json_fields.MAX_TITLE),
    "authors": lambda value: list(json_fields.names(value)),
    "year": json_fields.year,
    "venue": lambda value: json_fields.line(value, MAX_VENUE),
    "volume": _short,
    "issue": _short,
    "page": _short,
    "publisher": json_fields.line,
    "doi": json_fields.doi,
    "arxiv_id": lambda value: json_fields.line(value, 40),
    "abstract": lambda value: json_fields.line(value, json_fields.MAX_ABSTRACT),
    "keywords": _words,
}
"""The fields of a paper in the order in which they are shown, and what bounds a value of each."""


def candidate(field: str, value: Any, source: str, confidence: float) -> Candidate | None:
    """The candidate, its value bounded; None if nothing is left of it."""
    bounded = FIELDS[field](value)
    return Candidate(field, bounded, source, confidence) if bounded else None


def candidates(stated: Mapping[str, Any], source: str, confidence: float) -> Iterator[Candidate]:
    """A candidate for each field that a source states, all with one confidence."""
    for field in FIELDS:
        if found := candidate(field, stated.get(field), source, confidence):
            yield found


CATALOGUES: Mapping[str, float] = {
    "arxiv": 0.97,
    "crossref": 0.96,
    "openalex": 0.93,
    "unpaywall": 0.92,
    "semanticscholar": 0.9,
}
"""Confidence in the services: Crossref has what the publisher deposited, others have it from Crossref."""


def of_catalogue(source: str, paper: Paper) -> list[Candidate]:
    """What a service knows of the paper."""
    return list(candidates(asdict(paper) | {"authors": list(paper.authors)}, source, CATALOGUES[source]))


def read_stored(stored: Any) -> Iterator[Candidate]:
    """The candidates that `to_json` made; anything else is left out."""
    for record in stored if isinstance(stored, list) else ():
        if isinstance(record, dict) and str(record.get("field")) in FIELDS:
            value = FIELDS[record["field"]](record.get("value"))
            confidence = record.get("confidence")
            if value and isinstance(confidence, int | float):
                source = json_fields.line(record.get("source"), 40)
                yield Candidate(record["field"], value, source, float(confidence))


def with_news(
    known: Iterable[Candidate], sources: Iterable[str], news: Iterable[Candidate]
) -> list[dict[str, Any]]:
    """The known candidates, those of `sources` replaced by new ones, as they are stored."""
    replaced = set(sources)
    kept = [each for each in known if each.source not in replaced]
    return [each.to_json() for each in (*kept, *news)]
