"""A paper or a reference as an entry of a bibliography, independent of its format. Pure.

All text is on one line, without control characters and characters that reverse or hide text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pipeline.steps.metadata.merge import FieldValue, split_name
from pipeline.steps.report.report import arxiv_link, doi_link, one_line

Kind = Literal["article", "conference", "preprint", "other"]

CONFERENCE = re.compile(r"\b(?:proceedings|conference|workshop|symposium|congress|proc\.)", re.IGNORECASE)
GROUP = re.compile(
    r"\b(?:collaborations?|consortium|team|group|project|organi[sz]ation|university|institute|society|committee|"
    r"agency|association|foundation|council|department|ministry|company|inc|ltd|gmbh|network|initiative)\b",
    re.IGNORECASE,
)
CATALOGUE_NAMES = {
    "arxiv": "arXiv", "crossref": "Crossref", "openalex": "OpenAlex", "unpaywall": "Unpaywall",
    "semanticscholar": "Semantic Scholar",
}  # fmt: skip

SURE = 0.5
"""The confidence below which a reference is kept as printed, beside its fields."""


@dataclass(frozen=True)
class Name:
    """A person's family and given names; a group has a family name only."""

    family: str
    given: str = ""


@dataclass(frozen=True)
class Entry:
    """One entry. `key`: its citation key; `note`: a reference as printed, if its fields may be wrong;
    `catalogue`: the services whose values it has."""

    key: str
    kind: Kind
    title: str = ""
    authors: tuple[Name, ...] = ()
    year: int | None = None
    venue: str = ""
    volume: str = ""
    issue: str = ""
    page: str = ""
    publisher: str = ""
    doi: str = ""
    arxiv_id: str = ""
    url: str = ""
    abstract: str = ""
    keywords: tuple[str, ...] = ()
    note: str = ""
    catalogue: str = ""


def name_of(text: str) -> Name:
    """A name as services and papers state it: `Ada Lovelace`, `Lovelace, Ada`, `The ATLAS Collaboration`."""
    text = one_line(text)
    if "," not in text and GROUP.search(text):
        return Name(text)
    return Name(*split_name(text))


def cited_name(text: str) -> Name:
    """A name in a reference: `Family, Given`; without a comma what is no person's."""
    family, _, given = one_line(text).partition(",")
    return Name(family.strip(), given.strip())


def kind_of(venue: str, arxiv_id: str) -> Kind:
    if venue:
        return "conference" if CONFERENCE.search(venue) else "article"
    return "preprint" if arxiv_id else "other"


def of_paper(key: str, fields: Mapping[str, FieldValue], address: str) -> Entry:
    """The entry of a paper. `address`: where it is from, for one without an identifier."""
    values = {name: field.chosen.value for name, field in fields.items()}
    texts = {name: one_line(str(values.get(name) or "")) for name in TEXTS}
    return Entry(
        key=key,
        kind=kind_of(texts["venue"], texts["arxiv_id"]),
        authors=tuple(filter(_has_family, map(name_of, map(str, values.get("authors") or ())))),
        year=values.get("year"),
        url=doi_link(texts["doi"]) or arxiv_link(texts["arxiv_id"]) or one_line(address),
        keywords=tuple(filter(None, map(one_line, map(str, values.get("keywords") or ())))),
        catalogue=catalogues(field.chosen.source for field in fields.values()),
        **texts,
    )


TEXTS = ("title", "venue", "volume", "issue", "page", "publisher", "doi", "arxiv_id", "abstract")
"""The fields of text."""


def of_reference(key: str, record: Mapping[str, Any]) -> Entry:
    """The entry of a reference, from its stored line."""
    texts = {name: one_line(str(record.get(name) or "")) for name in ("title", "venue", "doi", "arxiv_id")}
    authors = tuple(filter(_has_family, map(cited_name, map(str, record.get("authors") or ()))))
    confidence = record.get("confidence")
    sure = isinstance(confidence, int | float) and confidence >= SURE and texts["title"] and authors
    year, sources = record.get("year"), record.get("sources")
    return Entry(
        key=key,
        kind=kind_of(texts["venue"], texts["arxiv_id"]),
        authors=authors,
        year=year if isinstance(year, int) else None,
        url=doi_link(texts["doi"]) or arxiv_link(texts["arxiv_id"]),
        note="" if sure else one_line(str(record.get("text") or "")),
        catalogue=catalogues(map(str, sources.values())) if isinstance(sources, Mapping) else "",
        **texts,  # type: ignore[arg-type]  # its names are those of fields of text
    )


def catalogues(sources: Iterable[str]) -> str:
    """The services among these, by name, the one that is believed most first."""
    named = set(sources)
    return ", ".join(title for source, title in CATALOGUE_NAMES.items() if source in named)


def _has_family(name: Name) -> bool:
    return bool(name.family)
