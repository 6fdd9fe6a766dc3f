"""The content of a report on one paper, independent of its format. Pure.

`markdown_report.py` and `json_report.py` render two of its formats; the HTML page is a template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from pipeline.steps.analyse.analyse import EXTRACTIVE, Analysis
from pipeline.steps.http.shown import shown
from pipeline.steps.report.claims_report import unverified_in_words, verified_in_words
from pipeline.steps.report.cost import Cost
from pipeline.steps.report.plain_text import one_line, paragraphs, plain
from pipeline.steps.report.stated_fields import Reference, StatedField, in_words

__all__ = ["one_line", "paragraphs", "plain"]

PAGE_SOURCES = {
    "pdfium": "text layer",
    "pypdf": "text layer, by a second engine",
    "ocr": "read by OCR",
    "blank": "blank",
    "failed": "not readable",
}
"""How a page was read, in words, in the order of the report."""

PARTIAL = "Partial document."


@dataclass(frozen=True)
class Fact:
    """A name and its text, "" if unknown; with a URL if it is a link. `verbatim`: an exact string."""

    name: str
    text: str
    link: str = ""
    verbatim: bool = False


NO_MODEL = Fact(
    "No language model was used.",
    "The text below is the paper's own: its printed abstract and sentences selected from it, its printed "
    "keywords or else its most frequent words. Nothing was understood or checked.",
)


@dataclass(frozen=True)
class SourceLookup:
    """A source that was asked about the paper, and the result."""

    source: str
    result: str


@dataclass(frozen=True)
class PagesRead:
    """Pages (from 1, in order) that were read in the same way, and the reason if one was recorded."""

    source: str
    numbers: tuple[int, ...]
    reason: str = ""


@dataclass(frozen=True)
class ReportFacts:
    """The content of a report. `pages_by` counts pages by the names of `PAGE_SOURCES`.

    `references` is None if no list was found. `requests` counts paid requests, tokens are those the
    endpoint reports. `problem`: what is missing, in words, or "". `created` must be aware; `size` is in
    bytes, None if unknown. `references_by`: as in `Document`. `files`: labels and addresses, from that of the
    report, of what is stored of it.
    """

    key: str
    source: str
    title: str
    pages: int
    references: int | None
    references_style: str
    analysis: Analysis
    method: str
    requests: int
    sha256: str
    created: datetime
    problem: str = ""
    references_by: Mapping[str, Any] = field(default_factory=dict)
    pages_by: Mapping[str, int] = field(default_factory=dict)
    authors: tuple[str, ...] = ()
    year: int | None = None
    licence: str = ""
    open_access: str = ""
    doi: str = ""
    arxiv_id: str = ""
    fetched_from: str = ""
    size: int | None = None
    characters: int | None = None
    read: tuple[PagesRead, ...] = ()
    reference_list: tuple[Reference, ...] = ()
    lookups: tuple[SourceLookup, ...] = ()
    metadata: tuple[StatedField, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    prompt_version: str = ""
    prompt_hash: str = ""
    extraction_schema: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost: Cost = field(default_factory=Cost)


def title_of(facts: ReportFacts) -> str:
    """The catalogue's title, else the analysis'."""
    return facts.title.strip() or facts.analysis.title


def warnings(facts: ReportFacts) -> Iterator[Fact]:
    """What a reader must know first: a short name and a sentence each."""
    if facts.problem:
        yield Fact(PARTIAL, facts.problem)
    if facts.method == EXTRACTIVE:
        yield NO_MODEL
    elif unverified := unverified_in_words(facts.analysis):
        yield Fact(
            "Unverified claims.", f"{unverified} are marked: look them up in the paper before using them."
        )
    if facts.analysis.anomalies:
        anomalies = "; ".join(facts.analysis.anomalies)
        yield Fact("Parts of the model's answer were left out.", anomalies)


def pages_in_words(facts: ReportFacts) -> str:
    """`12 (10 text layer, 2 read by OCR)`."""
    by = [
        f"{facts.pages_by[source]} {words}"
        for source, words in PAGE_SOURCES.items()
        if facts.pages_by.get(source)
    ]
    return f"{facts.pages} ({', '.join(by)})" if by else str(facts.pages)


def references_in_words(facts: ReportFacts) -> str:
    """The count with its style, or that no list was found; who read it, and what was read otherwise."""
    return "; ".join(filter(None, (_references_counted(facts), *_references_read(facts))))


def _references_counted(facts: ReportFacts) -> str:
    if facts.references is None:
        return "no list of references was found"
    style = facts.references_style
    return f"{facts.references} ({style})" if style else str(facts.references)


def _references_read(facts: ReportFacts) -> Iterator[str]:
    """Nothing where nobody else was asked to read them."""
    by = facts.references_by
    if "printed" in by:
        yield str(by["method"])
        if by["printed"] != facts.references:
            yield f"read from the print: {'none' if by['printed'] is None else by['printed']}"
    elif "reason" in by:
        yield f"{by['method']}, since {by['reason']}"


def method_in_words(facts: ReportFacts) -> str:
    """`m-1, 1 request, 9,000 tokens in and 300 out, prompt 2026-11-1`, as far as known."""
    if facts.method == EXTRACTIVE:
        return "extractive, without a language model"
    parts = [
        facts.method.removeprefix("model:"),
        "1 request" if facts.requests == 1 else f"{facts.requests} requests",
    ]
    if facts.prompt_tokens or facts.completion_tokens:
        parts.append(f"{facts.prompt_tokens:,} tokens in and {facts.completion_tokens:,} out")
    if facts.prompt_version:
        parts.append(f"prompt {facts.prompt_version}")
    return ", ".join(parts)


def links(facts: ReportFacts) -> Iterator[Fact]:
    """The paper's identifiers and terms of use; only doi.org and arxiv.org are linked to."""
    yield Fact("DOI", facts.doi, doi_link(facts.doi))
    yield Fact("arXiv", facts.arxiv_id, arxiv_link(facts.arxiv_id))
    yield Fact("Venue", in_words([field.value for field in facts.metadata if field.name == "venue"]))
    yield Fact("Licence", facts.licence)
    yield Fact("Open access", facts.open_access)


def provenance(facts: ReportFacts) -> Iterator[Fact]:
    """Where the paper came from, and how the report was made."""
    yield Fact("Key", facts.key, verbatim=True)
    yield Fact("Source", facts.source, verbatim=True)
    yield Fact("Fetched from", facts.fetched_from, verbatim=True)
    yield Fact("Pages", pages_in_words(facts))
    yield Fact("References", references_in_words(facts))
    yield Fact("Analysis", method_in_words(facts))
    if facts.method != EXTRACTIVE:
        yield Fact("Evidence", verified_in_words(facts.analysis))
        yield Fact("SHA-256 of the prompt", facts.prompt_hash, verbatim=True)
        yield Fact("Schema", facts.extraction_schema, verbatim=True)
    yield Fact("Cost", str(facts.cost))
    yield Fact("Size of the PDF", f"{facts.size:,} bytes" if facts.size else "")
    yield Fact("SHA-256 of the PDF", facts.sha256, verbatim=True)
    yield Fact("Created", facts.created.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"))


def group_pages(pages: Iterable[tuple[int, str, str]]) -> tuple[PagesRead, ...]:
    """Group pages (number, source, reason) by how they were read, failures last."""
    groups: dict[tuple[str, str], list[int]] = {}
    for number, source, reason in pages:
        groups.setdefault((source, reason), []).append(number)
    order = list(PAGE_SOURCES)
    rank = {source: order.index(source) if source in order else -1 for source, _ in groups}
    return tuple(
        PagesRead(source, tuple(sorted(groups[source, reason])), reason)
        for source, reason in sorted(groups, key=lambda group: (rank[group[0]], group[1]))
    )


INTERNAL = frozenset({"round", "failed"})
"""Fields of a look-up that are for the steps only."""


def source_lookup(record: Mapping[str, object]) -> SourceLookup:
    """One look-up as its step recorded it: its source, and the other fields in order.

    Without fields that are for the steps only, and without the query of a URL, which may hold a
    signature.
    """
    rest = {name: value for name, value in record.items() if name not in INTERNAL}
    if url := rest.get("url"):
        rest["url"] = shown(str(url))
    source = str(rest.pop("source", "") or "unnamed")
    fields = (f"{name}: {in_words(value)}" for name, value in rest.items() if has_value(value))
    return SourceLookup(source, ", ".join(fields))


def has_value(value: object) -> bool:
    return value not in (None, "", [], {})


DOI = re.compile(r"10\.\d{3,9}(\.\d+)*/\S+")
ARXIV = re.compile(r"(\d{4}\.\d{4,5}|[a-z-]+(\.[A-Za-z-]{2,})?/\d{7})(v\d{1,4})?")


def doi_link(doi: str) -> str:
    """The URL of a DOI, or "" if it is not one. A report links only to doi.org and arxiv.org."""
    return f"https://doi.org/{quote(doi, safe='/.-_')}" if DOI.fullmatch(doi) else ""


def arxiv_link(arxiv_id: str) -> str:
    """The URL of an arXiv paper, or "" if it is not an arXiv id."""
    return f"https://arxiv.org/abs/{arxiv_id}" if ARXIV.fullmatch(arxiv_id) else ""
