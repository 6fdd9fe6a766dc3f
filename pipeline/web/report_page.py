"""The report on one paper as a page: one file that needs nothing else, and no script to be read.

Django's templates escape whatever they are given; what hides or reverses text is taken out before.
The policy in the page itself forbids scripts and every load, also where it is opened from a disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC

from django.template.loader import render_to_string

from pipeline.steps.report.report import (
    PAGE_SOURCES,
    ReportFacts,
    arxiv_link,
    doi_link,
    method_in_words,
    one_line,
    pages_in_words,
    paragraphs,
    ranges,
    references_in_words,
    title_of,
    warnings,
)


@dataclass(frozen=True)
class Told:
    """A name and what is known of it, with an address where it leads somewhere."""

    name: str
    text: str
    link: str = ""


def render_html(facts: ReportFacts) -> str:
    """The whole page, UTF-8 once encoded."""
    page = {
        "title": one_line(title_of(facts)),
        "authors": one_line(", ".join(facts.authors)),
        "year": facts.year,
        "links": [told for told in links(facts) if told.text],
        "warnings": [Told(name, one_line(said)) for name, said in warnings(facts)],
        "summary": paragraphs(facts.analysis.summary),
        "contributions": [one_line(item) for item in facts.analysis.contributions],
        "keywords": [one_line(word) for word in facts.analysis.keywords],
        "reading": list(reading(facts)),
        "asked": [Told(one_line(a.who), one_line(a.what)) for a in facts.asked],
        "about": [told for told in about(facts) if told.text],
        "references": list(references(facts)),
    }
    return render_to_string("papers/report.html", page)


def links(facts: ReportFacts) -> Iterator[Told]:
    """What a reader may follow, and on which terms; only doi.org and arxiv.org are linked to."""
    yield Told("DOI", one_line(facts.doi), doi_link(facts.doi))
    yield Told("arXiv", one_line(facts.arxiv_id), arxiv_link(facts.arxiv_id))
    yield Told("Licence", one_line(facts.licence))
    yield Told("Open access", one_line(facts.open_access))


def reading(facts: ReportFacts) -> Iterator[dict[str, str | int]]:
    """How pages were read: in words, how many, which, and why so."""
    for alike in facts.read:
        yield {
            "how": one_line(PAGE_SOURCES.get(alike.source, alike.source)),
            "count": len(alike.numbers),
            "pages": ranges(alike.numbers),
            "why": one_line(alike.reason),
            "failed": int(alike.source == "failed"),
        }


def references(facts: ReportFacts) -> Iterator[dict[str, object]]:
    for reference in facts.reference_list:
        ids = (
            Told("DOI", one_line(reference.doi), doi_link(reference.doi)),
            Told("arXiv", one_line(reference.arxiv_id), arxiv_link(reference.arxiv_id)),
        )
        yield {"text": one_line(reference.text), "ids": [told for told in ids if told.text]}


def about(facts: ReportFacts) -> Iterator[Told]:
    """How we know: where it came from and what was made of it."""
    yield Told("Key", one_line(facts.key))
    yield Told("Source", one_line(facts.source))
    yield Told("Fetched from", one_line(facts.fetched_from))
    yield Told("Pages", pages_in_words(facts))
    yield Told("References", one_line(references_in_words(facts)))
    yield Told("Analysis", one_line(method_in_words(facts)))
    yield Told("Size of the PDF", f"{facts.size:,} bytes" if facts.size else "")
    yield Told("SHA-256 of the PDF", one_line(facts.sha256))
    yield Told("Created", facts.created.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"))
