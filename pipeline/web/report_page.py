"""The report on one paper as an HTML page: one self-contained file without scripts.

Django's templates escape all values; characters that hide or reverse text are removed before. The
content security policy in the page forbids scripts and loading anything, also when opened from a disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from django.template.loader import render_to_string

from pipeline.steps.report.claims_report import shown_claims, shown_fields
from pipeline.steps.report.report import (
    PAGE_SOURCES,
    Fact,
    ReportFacts,
    arxiv_link,
    doi_link,
    links,
    one_line,
    paragraphs,
    provenance,
    title_of,
    warnings,
)
from pipeline.steps.report.stated_fields import StatedField
from queuemgr.steptools.number_ranges import ranges


def render_html(facts: ReportFacts) -> str:
    """The whole page, to be encoded as UTF-8."""
    page = {
        "title": one_line(title_of(facts)),
        "authors": one_line(", ".join(facts.authors)),
        "year": facts.year,
        "links": known(links(facts)),
        "warnings": known(warnings(facts)),
        "summary": paragraphs(facts.analysis.summary),
        "files": facts.files,
        "fields": shown_fields(facts.analysis.extracted, facts.analysis.field_evidence),
        "claims": list(shown_claims(facts.analysis.claims())),
        "keywords": [one_line(word) for word in facts.analysis.keywords],
        "metadata": metadata(facts.metadata),
        "reading": list(reading(facts)),
        "lookups": [Fact(one_line(each.source), one_line(each.result)) for each in facts.lookups],
        "about": known(provenance(facts)),
        "references": list(references(facts)),
    }
    return render_to_string("papers/report.html", page)


def known(facts: Iterable[Fact]) -> list[Fact]:
    """Those that have a text, each on one line."""
    return [replace(fact, text=one_line(fact.text)) for fact in facts if one_line(fact.text)]


def metadata(fields: Iterable[StatedField]) -> list[tuple[str, str, str, str]]:
    """Name, value, source, and what others state."""
    return [
        (one_line(field.name), field.text, one_line(field.source), one_line(field.conflicts_in_words))
        for field in fields
    ]


def reading(facts: ReportFacts) -> Iterator[dict[str, str | int]]:
    """How pages were read: in words, how many, which, and the reason."""
    for pages in facts.read:
        yield {
            "how": one_line(PAGE_SOURCES.get(pages.source, pages.source)),
            "count": len(pages.numbers),
            "pages": ranges(pages.numbers),
            "reason": one_line(pages.reason),
            "failed": int(pages.source == "failed"),
        }


def references(facts: ReportFacts) -> Iterator[dict[str, object]]:
    for reference in facts.reference_list:
        ids = (
            Fact("DOI", reference.doi, doi_link(reference.doi)),
            Fact("arXiv", reference.arxiv_id, arxiv_link(reference.arxiv_id)),
        )
        yield {
            "text": one_line(reference.text), "ids": known(ids), "looked_up": one_line(reference.looked_up),
            "fields": metadata(reference.fields),
        }  # fmt: skip
