"""What the first page of a paper says of it: its DOI, arXiv id, title, authors, year, abstract. Pure.

It runs in a child process, since the text is a stranger's, and returns plain values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pipeline.steps.analyse.extractive import (
    NO_TITLE,
    abstract_and_body,
    could_be_title,
    first_title,
    printed_keywords,
)
from pipeline.steps.extract.page_lines import pages_of, without_running_heads
from pipeline.steps.extract.reference_ids import DOI_START, doi_of
from pipeline.steps.extract.references import heading_index
from pipeline.steps.metadata.printed_authors import has_marks, printed_authors, with_marks_joined
from pipeline.steps.metadata.title_match import NO_TITLES, end_of_title, share_printed

FRONT_LINES = 150
"""Lines of the first page that are read: more than any page has."""

FRONT_CHARACTERS = 20_000

MAX_FRONT = 200_000
"""Characters within which the first page ends."""

MAX_DOIS = 20
"""DOIs of the first page that are looked at."""

LINES_OF_A_DOI = 3

MAX_TITLE_LINES = 5


class Stated(NamedTuple):
    """A field, its value, and the confidence in it from 0 to 1."""

    field: str
    value: Any
    confidence: float


STAMP = re.compile(
    r"arXiv\s*:\s*(\d{4}\.\d{4,5}(?:v\d{1,3})?|[a-z-]{2,12}(?:\.[A-Z]{2})?/\d{7}(?:v\d{1,3})?)"
    r"\s{1,4}\[[\w.-]{2,20}\]\s{1,4}\d{1,2}\s{1,3}[A-Z][a-z]{2}\s{1,3}((?:19|20)\d\d)"
)
"""The stamp at the margin of an arXiv paper: its id, the category, the date."""

PUBLISHED = re.compile(
    r"(?:published|publication date|first online|available online)\b[^\n]{0,40}?\b((?:19|20)\d\d)\b",
    re.IGNORECASE,
)
DATED = re.compile(
    r"(?:©|\(c\)|copyright)\s{0,3}(?:by\s)?((?:19|20)\d\d)\b|"
    r"\b((?:19|20)\d\d)\s{0,2}[;,]\s{0,2}\d{1,4}\s{0,2}\(",
    re.IGNORECASE,
)
MONTH = re.compile(
    r"\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?,?\s{1,3}(?:\d{1,2},?\s{1,3})?"
    r"((?:19|20)\d\d)\b",
    re.IGNORECASE,
)

CITED_AS = re.compile(
    r"\(((?:19|20)\d\d)\)\.\s([^\n]{5,400}?)[.?!]\s([A-Z][^.,\n]{3,80}),\s(\d{1,4})\((\d{1,4})\),\s"
    r"([\w\u2013-]{1,20})\.\s"
)
"""A paper's own citation in its footer: year, title, journal, volume, issue, pages."""

HEADED = re.compile(
    r"^([^\W\d_][^\d\n]{4,100}?),?\s(\d{1,4})\s?(?:\(\d{1,4}\)\s?)?\(((?:19|20)\d\d)\),?\s"
    r"(\d{1,6}\s?[\u2013-]\s?\d{1,6})\b"
)
"""The head of a journal's page: its name, volume, year and pages."""

HEAD_LINES = 5

TAIL = 1_500
"""Characters at the end of the first page in which that stands."""


def printed(text: str, embedded_title: str = "") -> list[Stated]:
    """What is printed in a paper, given as text with `[PAGE n]` lines between its pages."""
    pages, front = pages_of(text)[1], front_of(text)
    own = without_own_references(front)
    head = "\n".join(own)[:FRONT_CHARACTERS]
    lines = with_marks_joined(own)
    title = title_of(lines, embedded_title)
    named = list(dois(own, text))
    return [
        *named,
        *stamps(head),
        *([Stated("title", title, 0.6)] if title else ()),
        *authors_of(lines, title or embedded_title),
        *own_citation(front, named[0].value if named else ""),
        *page_head(front),
        *years(head),
        *abstracts(pages),
    ]


def front_of(text: str) -> list[str]:
    """The lines of the first page that has any."""
    pages = pages_of(text[:MAX_FRONT])[1]
    return [line[:2_000] for line in (pages[0] if pages else [])][:FRONT_LINES]


def without_own_references(front: Sequence[str]) -> list[str]:
    """The lines of the first page before its list of references, which a short paper has there."""
    start = heading_index(front)
    return list(front if start is None else front[:start])


def dois(front: Sequence[str], text: str) -> Iterator[Stated]:
    """The paper's own DOI: the first of its first page that recurs on others, as in a footer, or else the
    first that is named as one."""
    found: dict[str, bool] = {}
    for i in [i for i, line in enumerate(front) if DOI_START.search(line)][:MAX_DOIS]:
        if doi := doi_of(front[i : i + LINES_OF_A_DOI]):
            start = DOI_START.search(front[i])
            before = front[i][: start.start()].lower() if start else ""
            named = before.rstrip(": ").endswith(("doi", "doi.org/", "doi.org"))
            found[doi] = found.get(doi, False) or named
    if not found:
        return
    times = {doi: text.count(doi) for doi in found}
    recurring = [doi for doi in found if times[doi] > 1]
    named_ones = [doi for doi, named in found.items() if named]
    best = next(iter([*(d for d in recurring if found[d]), *named_ones, *recurring]), "")
    if best:
        yield Stated("doi", best, 0.9 if best in recurring else 0.8)


def stamps(head: str) -> Iterator[Stated]:
    """The arXiv id of the stamp on the first page, and the year in it."""
    if match := STAMP.search(head):
        yield Stated("arxiv_id", match[1], 0.9)
        yield Stated("year", match[2], 0.55)


def title_of(front: Sequence[str], embedded_title: str) -> str:
    """The printed title: as the embedded one says where it ends, or else by the look of the lines."""
    if embedded_title and share_printed(embedded_title, front) == 1.0:
        return ""  # the same: the embedded one is spelled without line breaks
    guess = title_above_authors(front) or first_title(front)
    return "" if NO_TITLES.fullmatch(guess.strip()) else guess


def title_above_authors(front: Sequence[str]) -> str:
    """The first line that may be a title, with those between it and a list of names; "" without one. A
    line with marks of affiliations, or of several names, is surely no title."""
    at = next((i for i, line in enumerate(front[:15]) if could_be_title(line)), None)
    if at is None:
        return ""
    ends = [end for end in range(at + 1, at + 1 + MAX_TITLE_LINES) if printed_authors(front[end:])]
    end = next((end for end in ends if has_marks(front[end])), next(iter(ends), None))
    if end is None or any(map(NO_TITLE.search, front[at + 1 : end])):
        return ""
    return " ".join(front[at:end])


def authors_of(front: Sequence[str], title: str) -> Iterator[Stated]:
    """The names below the title."""
    end = end_of_title(title, front)
    if end is not None and (names := printed_authors(front[end:])):
        yield Stated("authors", names, 0.6)


def own_citation(front: Sequence[str], doi: str) -> Iterator[Stated]:
    """Year, venue, volume, issue and pages in the paper's own citation, which ends with its DOI."""
    tail = " ".join(front)[-TAIL:] + " "
    matches = [m for m in CITED_AS.finditer(tail) if doi and doi in tail[m.end() : m.end() + len(doi) + 40]]
    if matches:
        values = matches[-1].groups()
        for field, value in zip(("year", "title", "venue", "volume", "issue", "page"), values, strict=True):
            yield Stated(field, value, 0.55 if field == "title" else 0.7)


def page_head(front: Sequence[str]) -> Iterator[Stated]:
    """Venue, volume, year and pages above the title."""
    for line in front[:HEAD_LINES]:
        if match := HEADED.match(line):
            for field, value in zip(("venue", "volume", "year", "page"), match.groups(), strict=True):
                yield Stated(field, value, 0.6)
            return


def years(head: str) -> Iterator[Stated]:
    """The year of publication, or else of the last date."""
    if match := PUBLISHED.search(head):
        yield Stated("year", match[1], 0.78)
    elif match := DATED.search(head):
        yield Stated("year", match[1] or match[2], 0.5)
    elif match := MONTH.search(head[:1_500]):
        yield Stated("year", match[1], 0.4)


def abstracts(pages: Sequence[Sequence[str]]) -> Iterator[Stated]:
    """The abstract and the keywords, where the first pages have them under a heading."""
    lines = [line for page in without_running_heads(pages[:3]) for line in page]
    abstract = abstract_and_body(lines)[0]
    if abstract:
        yield Stated("abstract", abstract, 0.7)
    if keywords := printed_keywords(lines):
        yield Stated("keywords", keywords, 0.7)
